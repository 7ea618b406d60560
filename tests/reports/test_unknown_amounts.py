"""Unknown tokens, calls and costs are shown as unknown everywhere."""

import pytest

from reports.analysis.imputation import compare_unknown, read_unknown_costs
from reports.build import build
from reports.estimates import Imputed
from reports.questions.budgets.analysis import read_budgets
from reports.relations import open_marts
from reports.rendering import markdown, page
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder, attempt_row
from tests.reports.shown import answers, headline

MINUS = "\N{MINUS SIGN}"

UNKNOWN = dict.fromkeys(
    (
        "started_at",
        "duration_s",
        "billed_usd",
        "model_calls",
        "unpriced_calls",
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "output_tokens",
        "reasoning_tokens",
    )
)
"""Columns that are unknown in an import of verdicts and costs."""


def imported(lake: LakeBuilder, arm: str, instance: str, outcome: str, usd: float | None) -> None:
    cell = {"attempt_id": f"{arm}-{instance}", "instance_id": instance}
    row = attempt_row(**cell, **UNKNOWN, environment="imported", cost_usd=usd)
    lake.write("attempts", arm, [row])
    lake.evaluate(arm, instance, cell["attempt_id"], outcome, environment="imported")


@pytest.fixture
def partly(lake: LakeBuilder) -> Report:
    """Return the report of two imported arms, one of which lacks a cost and a whole cell."""
    lake.declare(["base", "other"], ["i1", "i2", "i3", "i4"], environment="imported")
    for instance, usd in (("i1", 1.0), ("i2", 1.0), ("i3", 3.0), ("i4", 3.0)):
        imported(lake, "base", instance, "resolved", usd)
    for instance, usd in (("i1", 1.5), ("i2", 0.9), ("i3", None)):
        imported(lake, "other", instance, "resolved", usd)
    return build(lake.root, "trial")


def numbers(imputed: Imputed | None) -> tuple[float, float, float, float]:
    """Return the number at the mean and at the maximum, and its bounds."""
    assert imputed
    bounds = imputed.bounds
    return imputed.at_mean, imputed.at_maximum, bounds.low, bounds.high


def test_unknown_tokens_and_calls_are_never_zero(partly: Report) -> None:
    """Unknown tokens and calls are never zero, neither in sums nor in comparisons."""
    for arm in partly.arms:
        assert (arm.tokens.total, arm.tokens.reasoning, arm.mean_calls) == (None, None, None)
    assert partly.resampled
    assert (partly.resampled.tokens.pairs, partly.resampled.tokens.ratio) == (0, None)
    text = markdown.render(partly)
    assert "Tokens:" not in text
    assert "| tokens, " not in text
    assert "| cost, difference per cell | +$0.200 |" in text
    assert "0 to 0" not in text
    html = page.render(partly)
    assert "<caption>Tokens</caption>" not in html


def test_the_known_part_of_a_cost_is_its_lower_bound() -> None:
    """The known part of a cost is its lower bound; an unknown cost is at least 0."""
    found = compare_unknown([(None, 5.0), (1.0, 1.0)], [(1.0, 1.0), (2.0, 2.0)], (1, 0))
    assert found
    assert numbers(found.ratio) == (0.5, 0.5, 0.5, 0.5)
    assert numbers(found.baseline_per_resolved) == (6.0, 6.0, 6.0, 6.0)
    assert (found.candidate_per_resolved, found.ratio_per_resolved) == (None, None)
    found = compare_unknown(
        [(None, None), (0.0, 0.0), (1.0, 1.0)], [(1.0, 1.0), (1.0, 1.0), (None, 0.5)], (1, 1)
    )
    assert found
    assert numbers(found.ratio) == (2.0, 1.5, 1.25, 3.0)
    assert numbers(found.difference) == pytest.approx((0.5, 1 / 3, 0.5 / 3, 2 / 3))
    assert compare_unknown([(1.0, 1.0)], [(2.0, 2.0)], (1, 1)) is None
    assert compare_unknown([(None, None)], [(2.0, 2.0)], (1, 1)) is None


def test_unknown_costs_of_an_arm_have_bounds_and_may_move_it_on_the_frontier(
    lake: LakeBuilder,
) -> None:
    """An arm has bounds of its cost, and a place that the unknown costs cannot or can change."""
    arms = ("cheap", "close", "best", "dear")
    lake.declare(arms, ["i1", "i2", "i3", "i4"], environment="imported", willingness_to_pay=10.0)
    costs = {
        "cheap": (1.0, 1.0, 1.0, 1.0),
        "close": (1.2, 1.2, 1.2, None),
        "best": (1.0, 3.0, 2.0, None),
        "dear": (9.0, 9.0, 9.0, None),
    }
    for arm, amounts in costs.items():
        for place, amount in enumerate(amounts, start=1):
            is_resolved = place <= {"best": 3}.get(arm, 2)
            outcome = "resolved" if is_resolved else "unresolved"
            imported(lake, arm, f"i{place}", outcome, amount)
    report = build(lake.root, "trial")
    connection = open_marts(lake.root, "trial")
    found = {one.arm: one for one in read_unknown_costs(connection, report.worth)}
    connection.close()
    assert {arm: one.place for arm, one in found.items()} == {
        "close": "open",
        "best": "on",
        "dear": "off",
    }
    assert (found["best"].cells, found["best"].ran) == (1, 4)
    assert numbers(found["best"].per_cell) == pytest.approx((8 / 4, 9 / 4, 6 / 4, 9 / 4))
    assert numbers(found["best"].per_resolved) == pytest.approx((8 / 3, 3.0, 2.0, 3.0))
    for text in (markdown.render(report), page.render(report)):
        table = text.partition("Arms with unknown costs")[2]
        for shown in ("1 of 4", "$2.00", "$2.25", "$1.50 to $2.25", "$2.00 to $3.00"):
            assert shown in table
        assert "$5.25 to $6.00" in table


def test_arms_without_a_common_instance_are_not_compared(lake: LakeBuilder) -> None:
    """Arms without a common instance are not compared, even if they resolve equally many."""
    lake.declare(["a", "b"], ["i1", "i2"], environment="imported")
    imported(lake, "a", "i1", "resolved", 1.0)
    imported(lake, "b", "i2", "resolved", 1.0)
    assert headline(build(lake.root, "trial")) == (
        "b and a were run on different instances (1 of 2 against 1 of 2): they share none "
        "to compare."
    )


def test_an_arm_whose_costs_are_all_zero_is_unmetered(lake: LakeBuilder) -> None:
    """Calls at no cost are unmetered: no cost per resolved cell, and no cost ratio, is 0."""
    lake.declare(["free", "paid"], ["i1", "i2"], environment="imported")
    for instance in ("i1", "i2"):
        imported(lake, "free", instance, "resolved", 0.0)
        imported(lake, "paid", instance, "resolved", 2.0)
    report = build(lake.root, "trial")
    assert report.arm("free").cost_per_resolved is None
    assert headline(report).endswith("; which costs more is unknown.")
    text, html = markdown.render(report), page.render(report)
    assert "| unmetered | unmetered | unmetered |" in text
    assert "<td>unmetered</td><td>unmetered</td><td>unmetered</td>" in html
    assert "$0" not in text.partition("## Arms")[2].partition("##")[0]
    told = [note.text for note in report.notes if note.text.startswith("Not metered")]
    assert told == [
        "Not metered: all costs of free are 0 and the numbers of their calls are unknown, so they "
        "count as unknown."
    ]
    cost = answers(report)["cost"]
    assert "free was not metered (all its costs are 0)" in cost


def test_a_cost_of_zero_is_unknown_in_a_metered_arm_too(lake: LakeBuilder) -> None:
    """Attempts with calls that cost nothing are in no ratio and no curve, and a warning says so."""
    names = [f"i{n}" for n in range(4)]
    parts = {"one": 1, "two": 2, "three": 3}
    lake.declare([*parts, "paid"], names)
    for n, name in enumerate(names):
        for arm, zeros in parts.items():
            lake.cell(arm, name, cost_usd=0.0 if n < zeros else 2.0, model_calls=20)
        lake.cell("paid", name, cost_usd=1.0, model_calls=20)
    report = build(lake.root, "trial")
    pairs = {frozenset((pair.baseline, pair.candidate)): pair for pair in report.comparisons}
    warnings = " ".join(note.text for note in report.notes if note.level == "warning")
    for arm, zeros in parts.items():
        pair = pairs[frozenset((arm, "paid"))]
        assert (pair.priced_pairs, {pair.cost_ratio} <= {0.5, 2.0}) == (4 - zeros, True)
        assert report.arm(arm).cost.is_lower_bound
        assert f"{arm}: an unmetered $0 for {zeros} of 4 cells" in warnings
    assert "no cost for" not in warnings
    connection = open_marts(lake.root, "trial")
    budget, *_ = read_budgets(connection, [*parts, "paid"])
    connection.close()
    assert {leader.arm for leader in budget.leaders} == {"paid"}
    assert budget.unknown == parts


def test_a_bill_that_is_unknown_is_never_zero(lake: LakeBuilder) -> None:
    """Bills, their parts and saved costs are unknown or lower bounds, if any price is unknown."""
    lake.declare(["none", "some", "old"], ["i1", "i2"])
    unknown = {"cost_usd": None, "unpriced_calls": 2, "model_calls": 2}
    for instance, outcome in (("i1", "resolved"), ("i2", "unresolved")):
        lake.cell("none", instance, outcome, **unknown, billed_usd=None)
        lake.cell("old", instance, outcome, **unknown, billed_usd=0.0)
    lake.cell("some", "i1", "resolved", cost_usd=1.0, billed_usd=1.0)
    lake.cell("some", "i2", "unresolved", **unknown, billed_usd=None)
    report = build(lake.root, "trial")
    text, html = markdown.render(report), page.render(report)
    for arm in ("none", "old"):
        assert f"| {arm} | 2 |{' unknown |' * 8}\n" in text
    nothing = "$0 | $0 | unknown | unknown"
    assert f"| some | 2 | ≥ $1.00 | ≥ $1.00 | $1.00 | unknown | {nothing} |" in text
    for shown in (text, html):
        assert "Nothing was spent" not in shown
        assert "billed nothing" not in shown
    assert "The bill of none is unknown." in answers(report)["spending"]
