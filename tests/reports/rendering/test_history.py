"""Changes between the runs of a history."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from reports.build import build
from reports.combining import combine, get_combined_name
from reports.format import p_value, points
from reports.questions.history.analysis import read_history
from reports.questions.history.section import describe_history
from tests.reports.lake_fixture import LakeBuilder

INSTANCES = [f"i{number}" for number in range(12)]


def run(root: Path, day: int, resolved: dict[str, int], **columns: object) -> LakeBuilder:
    """Write a run of two repeats in which each arm resolves this number of cells."""
    lake = LakeBuilder(root, f"night-2026030{day}t000000")
    lake.declare([*resolved], INSTANCES, **{"repeats": 2, **columns})
    for arm, number in resolved.items():
        cells = [(instance, repeat) for instance in INSTANCES for repeat in (0, 1)]
        for place, (instance, repeat) in enumerate(cells):
            outcome = "resolved" if place < number else "unresolved"
            at = {"later_s": 86400 * day, "repeat": repeat}
            lake.cell(arm, instance, outcome, attempt_id=f"{day}{arm}{place}", **at)
    return lake


def changes(root: Path) -> list[tuple[str, str, str]]:
    """Return run, arm and change of each row of the table."""
    [section] = describe_history(read_history(root, "night")).sections
    [table] = section.tables
    place = table.header.index("change, p")
    return [(str(row[0]), str(row[2]), str(row[place])) for row in table.rows]


def test_a_run_is_compared_with_the_one_before_it(tmp_path: Path) -> None:
    """The change, its interval and p are those of `report A B`. The first run has none."""
    first, second = (
        run(tmp_path, day, {"a": number}).experiment for day, number in ((1, 20), (2, 5))
    )
    with TemporaryDirectory() as folder:
        combine(tmp_path, [first, second], Path(folder))
        [pair] = build(
            Path(folder), get_combined_name([first, second]), f"a@{first}", f"a@{second}"
        ).comparisons
    assert pair.interval
    limits = f"{points(pair.interval.low)} to {points(pair.interval.high)}"
    expected = f"{points(pair.table.difference)} ({limits}), p = {p_value(pair.p_value)}"
    assert changes(tmp_path) == [(second, "a", expected), (first, "a", "–")]
    assert "\N{MINUS SIGN}62.5" in expected


@pytest.mark.full
def test_a_change_is_that_of_an_arm_since_its_last_run_of_these_instances(tmp_path: Path) -> None:
    """A run without the arm is passed over, and so is one of another dataset."""
    run(tmp_path, 1, {"a": 20, "b": 4})
    run(tmp_path, 2, {"b": 4})
    run(tmp_path, 3, {"a": 3}, dataset_digest="other")
    run(tmp_path, 4, {"a": 20, "c": 1})
    found = {(name[-8], arm): change for name, arm, change in changes(tmp_path)}
    assert {place for place, change in found.items() if change != "–"} == {("2", "b"), ("4", "a")}
    assert found["4", "a"].startswith("0.0 (")
    assert "p = 1.00" in found["4", "a"]
