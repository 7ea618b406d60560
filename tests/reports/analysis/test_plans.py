"""Comparisons declared before the first result: roles, Holm's correction, margin and banner."""

import re
from datetime import timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest

from reports.build import build
from reports.rendering import markdown, page
from reports.types import Report
from tests.reports.lake_fixture import NOON, LakeBuilder
from tests.reports.shown import headline
from tests.reports.shown import lines as numbers

MINUS = "\N{MINUS SIGN}"

ARMS = ["a", "b", "c"]
INSTANCES = [f"i{n:02d}" for n in range(20)]
RESOLVED = {"a": 4, "b": 14, "c": 20}
"""Number of instances that each arm resolves, counted from the first one."""

DECLARED: dict[str, Any] = {
    "primary_baseline": "a",
    "primary_candidate": "b",
    "primary_margin": 0.1,
    "family": [{"baseline": "c", "candidate": "b"}],
}


def run(lake: LakeBuilder) -> None:
    """Write every cell of three arms, with gradings at noon and attempts one hour later."""
    lake.fill(RESOLVED, INSTANCES, started_at=NOON + timedelta(hours=1))


def declare(lake: LakeBuilder, hours: float, **changes: Any) -> None:
    """Write a declaration that many hours after noon, with changes to `DECLARED`."""
    columns = {**DECLARED, **changes}
    columns.setdefault("declaration_digest", f"d{hours}")
    lake.declare(ARMS, INSTANCES, declared_at=NOON + timedelta(hours=hours), **columns)


def banner(report: Report) -> str:
    """Return the warning that declared comparisons were changed, or ''."""
    found = [note for note in report.notes if "changed after results" in note.text]
    assert all(note.level == "warning" for note in found)
    return "".join(note.text for note in found)


def roles(report: Report) -> dict[str, str]:
    """Return the role of every comparison by its arms, such as `ab`."""
    return {"".join(sorted((p.baseline, p.candidate))): p.role for p in report.comparisons}


def lines(report: Report) -> dict[str, tuple[str, str]]:
    """Return value and basis of the leading pair's numbers by name."""
    return {line.name: (line.value, line.over) for line in numbers(report)}


def test_what_is_not_declared_is_exploratory(lake: LakeBuilder) -> None:
    """Comparisons outside the declared family are exploratory."""
    declare(lake, 0)
    run(lake)
    report = build(lake.root, "trial")
    assert roles(report) == {"ab": "primary", "bc": "declared", "ac": "exploratory"}
    assert report.notes == ()
    assert [(p.baseline, p.candidate) for p in report.comparisons] == [
        ("a", "b"),
        ("a", "c"),
        ("c", "b"),
    ]


def test_a_family_does_not_shrink_with_hindsight(lake: LakeBuilder) -> None:
    """An arm that a later declaration drops still counts in the correction."""
    declare(lake, 0)
    run(lake)
    later = {**DECLARED, "declared_at": NOON + timedelta(hours=2), "declaration_digest": "d2"}
    lake.declare(["a", "b"], INSTANCES, **later)
    (pair,) = build(lake.root, "trial").comparisons
    assert pair.adjusted_p_value == 2 * pair.p_value


def test_the_correction_decides_what_the_headline_calls_chance(lake: LakeBuilder) -> None:
    """The headline judges by the corrected p-value: 0.024 is tripled by two other comparisons."""
    family = [{"baseline": arm, "candidate": "gone"} for arm in "ab"]
    declare(lake, 0, primary_baseline="c", family=family)
    run(lake)
    text = headline(build(lake.root, "trial"))
    assert "No difference seen between b and c: " in text
    assert "p = 0.0720 by Holm over the declared comparisons" in text
    text = headline(build(lake.root, "trial", baseline="a", candidate="b"))
    assert "points, p = 0.00222)" in text


def test_a_margin_is_held_against_the_lower_limit(two_arms: LakeBuilder) -> None:
    """Non-inferiority compares the margin with the interval's lower limit, here -74.16 points."""
    primary = {"primary_baseline": "quick", "primary_candidate": "careful"}
    for path in (two_arms.root / "experiments").rglob("*.parquet"):
        path.unlink()
    instances = ["i1", "i2", "i3", "i4"]
    two_arms.declare(["quick", "careful"], instances, **primary, primary_margin=0.74)
    report = build(two_arms.root, "trial")
    found = report.non_inferiority
    assert found is not None
    assert found.low == report.comparisons[0].interval.low
    assert not found.is_shown
    told = f"lower limit {MINUS}74.2 against {MINUS}74.0"
    assert lines(report)["careful not worse by more than 74.0 points"] == ("not shown", told)


@pytest.mark.full
def test_the_margin_keeps_its_direction(lake: LakeBuilder) -> None:
    """If the report swaps the arms, the margin still applies to the declared candidate."""
    declare(lake, 0)
    run(lake)
    forward = build(lake.root, "trial").non_inferiority
    turned = build(lake.root, "trial", baseline="b", candidate="a")
    assert forward is not None
    assert turned.non_inferiority is not None
    assert (turned.comparisons[0].candidate, turned.non_inferiority.candidate) == ("a", "b")
    assert turned.non_inferiority.low == pytest.approx(forward.low, abs=1e-12)
    assert turned.non_inferiority.is_shown


def repeat(lake: LakeBuilder, repeats: int, resolved: dict[str, range], instances: int) -> None:
    """Write every cell of some arms; all repeats of an instance have the same outcome."""
    for arm, solved in resolved.items():
        for n, instance in enumerate(INSTANCES[:instances]):
            for number in range(repeats):
                outcome = "resolved" if n in solved else "unresolved"
                lake.cell(arm, instance, outcome, repeat=number)


@pytest.mark.full
@pytest.mark.parametrize("repeats", [(1, 2), (2, 1), (3, 5), (2, 2)])
def test_the_headline_has_one_denominator(lake: LakeBuilder, repeats: tuple[int, int]) -> None:
    """Its counts are those of its difference, and a note says how often each arm is planned."""
    arms = dict(zip("ab", repeats, strict=True))
    for place, (arm, number) in enumerate(arms.items()):
        lake.declare([arm], INSTANCES[:4], repeats=number, arm_order=place)
        repeat(lake, number, {arm: range(3 if arm == "a" else 1)}, instances=4)
    report = build(lake.root, "trial")
    found = re.search(r": (\d+) of (\d+) against (\d+) of (\d+)", headline(report))
    assert found
    first, pairs, second, others = map(int, found.groups())
    assert pairs == others == 4 * min(repeats)
    assert (first - second) / pairs == report.comparisons[0].table.difference == -0.5
    is_part = "of the cells that both plan" in headline(report)
    assert is_part is (repeats[0] != repeats[1])
    [note] = [note.text for note in report.notes if note.text.startswith("Each instance")]
    assert ("planned 2 times" in note) is (repeats == (2, 2))
    assert (f"(a {repeats[0]}, b {repeats[1]})" in note) is is_part


def test_another_primary_after_results_leads_and_is_exploratory(lake: LakeBuilder) -> None:
    """A primary comparison declared after results is exploratory; the earlier one keeps its role.

    The banner states both declarations with their times.
    """
    declare(lake, 0)
    run(lake)
    declare(lake, 2, primary_candidate="c", primary_margin=None, family=[])
    report = build(lake.root, "trial")
    first = report.comparisons[0]
    assert (first.baseline, first.candidate, first.role) == ("a", "c", "exploratory")
    assert first.adjusted_p_value is None
    assert report.non_inferiority is None
    assert roles(report) == {"ac": "exploratory", "ab": "primary", "bc": "declared"}
    assert banner(report) == (
        "The declared comparisons were changed after results existed. Declared before the first "
        "result: primary b against a with a margin of 10.0 points, family b against c "
        "(2026-03-01 12:00 UTC). Changed since to: primary c against a (2026-03-01 14:00 UTC). "
        "Only what was declared before counts as declared; everything else is "
        "exploratory."
    )
    assert "changed after results existed" in markdown.render(report)
    assert "changed after results existed" in page.render(report)


def test_a_plan_made_with_results_at_hand_is_exploratory(lake: LakeBuilder) -> None:
    """If the first plan is declared after results, every comparison is exploratory."""
    nothing = dict.fromkeys(("primary_baseline", "primary_candidate", "primary_margin"))
    declare(lake, 0, **nothing, family=[])
    run(lake)
    declare(lake, 2)
    report = build(lake.root, "trial")
    assert set(roles(report).values()) == {"exploratory"}
    assert "before the first result: none (2026-03-01 12:00 UTC). Changed" in banner(report)
    notes = [note.text for note in report.notes if note.level == "note"]
    assert notes == ["The comparison shown first was not declared in advance and is exploratory."]


def test_what_infrastructure_ended_is_no_result(lake: LakeBuilder) -> None:
    """An attempt that infrastructure ended is no result, so the plan may still be changed."""
    declare(lake, -2, primary_candidate="c", family=[])
    lake.attempt("a", "i00", outcome="infrastructure", started_at=NOON - timedelta(hours=1))
    declare(lake, 0)
    run(lake)
    report = build(lake.root, "trial")
    assert (banner(report), roles(report)["ab"]) == ("", "primary")


def test_a_verdict_from_before_the_first_attempt_is_another_experiment_s(
    lake: LakeBuilder,
) -> None:
    """A verdict older than the first attempt comes from another experiment and is no result."""
    declare(lake, -1, primary_candidate="c", family=[])
    declare(lake, 0.5)
    run(lake)
    report = build(lake.root, "trial")
    assert (banner(report), roles(report)["ab"]) == ("", "primary")


def test_a_lake_from_before_there_were_families_still_reads(lake: LakeBuilder) -> None:
    """A lake without the columns of margin and family keeps its declared primary comparison."""
    declare(lake, 0, primary_margin=None, family=[])
    for path in (lake.root / "experiments").rglob("*.parquet"):
        table = pq.ParquetFile(path).read()
        pq.write_table(table.drop_columns(["primary_margin", "family"]), path)
    run(lake)
    declare(lake, 2, primary_margin=None, family=[])
    report = build(lake.root, "trial")
    assert (roles(report)["ab"], banner(report)) == ("primary", "")
    assert report.comparisons[0].adjusted_p_value == report.comparisons[0].p_value
