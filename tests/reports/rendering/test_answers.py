"""The five questions of a report and their answers in words."""

import pytest

from reports.build import build
from reports.rendering.sections import TableCell
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.shown import answers, section

pytestmark = pytest.mark.sampled(2)

TIMES = "\N{MULTIPLICATION SIGN}"


def told(lake: LakeBuilder) -> dict[str, str]:
    """Return the answers for the experiment `trial` by name of the question."""
    return answers(build(lake.root, "trial"))


def test_a_complete_run_has_five_answers(two_arms: LakeBuilder) -> None:
    """The answers are sentences that contain the numbers."""
    found = told(two_arms)
    assert found["cost"] == (
        f"careful costs 3.00{TIMES} (95 % interval 3.00{TIMES} to 3.00{TIMES}) as much as quick: "
        "quick $0.500 per cell, $1.00 per resolved cell; careful $1.50 per cell, $3.00 per "
        "resolved cell."
    )
    assert found["differences"] == "careful alone resolves 1 cell, quick alone 1."
    assert found["failures"].startswith(
        "quick leaves 2 of 4 cells unresolved, most often: not resolved, tests not recorded "
        "(2, 100.0 %)."
    )


def test_spending_is_divided_by_verdict(lake: LakeBuilder) -> None:
    """Spending is divided into resolved, not resolved and no verdict; zero parts are omitted."""
    lake.declare(["a", "b"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0, billed_usd=2.0)
    lake.cell("a", "i2", "unresolved", cost_usd=1.0, billed_usd=1.0)
    lake.attempt("a", "i2", outcome="infrastructure", cost_usd=1.0, billed_usd=1.0)
    lake.cell("b", "i1", cost_usd=1.0, billed_usd=1.0)
    assert told(lake)["spending"] == (
        "a was billed $4.00: 25.0 % went into resolved cells, 25.0 % into cells not resolved and "
        "50.0 % bought no verdict. b was billed $1.00: 100.0 % went into resolved cells."
    )


def test_an_unknown_bill_is_not_zero(lake: LakeBuilder) -> None:
    """An unknown bill is neither zero nor omitted; a known cost replaces it."""
    lake.declare(["a", "b", "c"], ["i1"])
    lake.cell("a", "i1", cost_usd=1.0, billed_usd=None, environment="imported")
    lake.cell("b", "i1", cost_usd=None, billed_usd=None, model_calls=0, environment="imported")
    found = told(lake)["spending"]
    assert found == (
        "a cost $1.00 (its bill is unknown): 100.0 % went into resolved cells. "
        "The bill of b is unknown."
    )
    [table] = section(build(lake.root, "trial"), "spending").tables
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert [text(rows["a"][name]) for name in ("billed", "resolved cells", "lost calls")] == [
        "unknown", "$1.00", "unknown",
    ]  # fmt: skip
    assert [rows["b"][name] for name in ("billed", "resolved cells")] == ["unknown", "unknown"]
    assert [rows["c"][name] for name in ("billed", "resolved cells")] == ["–", "–"]


def test_a_bill_that_is_known_in_part_is_a_lower_bound(lake: LakeBuilder) -> None:
    """If one of two bills is unknown, the sum is a lower bound."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0, billed_usd=None, environment="imported")
    lake.cell("a", "i2", cost_usd=1.0, billed_usd=1.0)
    [table] = section(build(lake.root, "trial"), "spending").tables
    [row] = table.rows
    assert row[2] == "≥ $1.00"
    assert told(lake)["spending"].startswith("a was billed ≥ $1.00: 100.0 % went into")


def test_before_anything_ran_what_is_known_has_an_answer(lake: LakeBuilder) -> None:
    """Even a single arm that has not run has answers, but none on budgets and on its work."""
    lake.declare(["a"], ["i1"])
    assert told(lake) == {
        "resolution": "Nothing has run yet: 1 cell planned.",
        "cost": "No cost is known, so nothing about cost is compared or drawn.",
        "worth": "This needs costs. Not compared: a, because no cost is known.",
        "differences": "There is only one arm, so there is nothing to compare.",
        "instances": "Nothing has run yet.",
        "failures": "a leaves 1 of 1 cell unresolved, most often: never run (1, 100.0 %).",
        "spending": "a has not run.",
    }


def test_failures_are_divided_in_three_ways(lake: LakeBuilder) -> None:
    """Failures are grouped by patch, ending and progress. An unknown ending keeps its own name."""
    lake.declare(["a", "d"], ["i1"])
    lake.attempt("a", "i1", outcome="vanished")
    lake.attempt(
        "d", "i1", outcome="gave_up", workflow_status="blocked", agent_verdict="unverified",
        reproduced=False,
    )  # fmt: skip
    *groups, _ = section(build(lake.root, "trial"), "failures").tables
    by_kind = [[(row[0], *map(text, row[1:3])) for row in group.rows] for group in groups]
    assert by_kind == [
        [("no patch", "1", "1")],
        [("gave up", "0", "1"), ("vanished", "1", "0")],
        [("not reproduced", "0", "1")],
    ]
    examples = groups[0].rows[0][-1]
    assert isinstance(examples, tuple)
    assert [example.quiet for example in examples] == ["a", "d"]


def text(cell: object) -> str:
    """Return the text of a field."""
    return cell.text if isinstance(cell, TableCell) else str(cell)
