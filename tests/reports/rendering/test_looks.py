"""What a report of an unfinished experiment says."""

import pytest

from reports.build import build
from tests.reports.lake_fixture import ORDINARY, LakeBuilder

PRIMARY = {"primary_baseline": "plain", "primary_candidate": "careful"}

DECISION = {
    name: value
    for name, value in (ORDINARY["decisions"] | {"baseline": "plain"}).items()
    if name != "arm"
}


def said(lake: LakeBuilder) -> list[str]:
    """Return the notes on a running experiment."""
    notes = build(lake.root, "trial").notes
    return [note.text for note in notes if "unfinished" in note.text]


def fill(lake: LakeBuilder, complete: int, planned: int, **columns: object) -> None:
    """Write instances that only the second arm resolves, and one with half of its cells."""
    ids = [f"i{number}" for number in range(planned)]
    lake.declare(["plain", "careful"], ids, **columns)
    for instance in ids[:complete]:
        lake.cell("plain", instance, "unresolved")
        lake.cell("careful", instance)
    if complete < planned:
        lake.cell("careful", ids[complete])


def test_an_unfinished_experiment_can_be_decided(lake: LakeBuilder) -> None:
    """Nine instances in one direction are enough: 2^9 / 10 is above 20."""
    fill(lake, 9, 12, **PRIMARY)
    assert said(lake) == [
        "The experiment is unfinished: 9 of 12 instances are complete in both arms of the primary "
        "comparison. What may be concluded now: careful resolves more than plain, however often "
        "the results were read (careful leads at 9, plain at 0 of them; e-value 51.2, decided at "
        "5.0 % from 20 on). P-values and intervals hold for one look at the end."
    ]


@pytest.mark.parametrize(
    ("complete", "planned", "columns"),
    [
        (9, 9, PRIMARY),
        (0, 9, PRIMARY),
        (9, 12, {}),
        (9, 12, {**PRIMARY, "environment": "imported"}),
    ],
)
def test_nothing_is_said_where_nothing_can_be(
    lake: LakeBuilder, complete: int, planned: int, columns: dict[str, object]
) -> None:
    """A finished or an empty experiment, one without a primary comparison, and an import."""
    fill(lake, complete, planned, **columns)
    assert said(lake) == []


def test_an_experiment_that_ended_early_says_how(lake: LakeBuilder) -> None:
    """The report has what was decided, the saving, and no cell that was not needed."""
    fill(lake, 8, 12, **PRIMARY)
    lake.write("decisions", "careful", [DECISION])
    report = build(lake.root, "trial")
    assert {arm.planned for arm in report.arms} == {9}
    assert said(lake) == []
    [text] = [note.text for note in report.notes if "ended early" in note.text]
    assert text == (
        "The experiment ended early, as declared (stop_when): careful resolves more than plain "
        "(e-value 28.4 after 8 complete instances, decided at 5.0 % from 20 on; careful leads at "
        "8, plain at 0 of them). 6 of 24 planned cells were not needed, about $3.00 at the mean "
        "cost of a cell. They are in no rate. The lead then was 100.0 points: a lead at which an "
        "experiment ends is larger on average than the true one, and p-values and intervals do not "
        "know of the end."
    )
