"""Unknown tokens, calls and costs are shown as unknown everywhere."""

import re

import pytest

from reports.analysis.imputation import impute
from reports.build import build
from reports.rendering import markdown, page
from reports.rendering.answers import answers
from reports.rendering.headline import headline
from reports.rendering.leading import describe
from reports.types import Interval, Report
from tests.reports.lake_fixture import LakeBuilder, attempt_row

pytestmark = pytest.mark.sampled(2)

TIMES = "\N{MULTIPLICATION SIGN}"

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


def test_unknown_tokens_and_calls_are_never_zero(partly: Report) -> None:
    """Unknown tokens and calls are never zero, neither in sums nor in comparisons."""
    for arm in partly.arms:
        assert (arm.tokens.total, arm.tokens.reasoning, arm.mean_calls) == (None, None, None)
    assert partly.resampled
    assert (partly.resampled.tokens.pairs, partly.resampled.tokens.ratio) == (0, None)
    text = markdown.render(partly)
    assert "| base | unknown | unknown | unknown | unknown | unknown |" in text
    assert "| tokens, " not in text
    assert "| cost, difference per cell | +$0.200 |" in text
    assert "0 to 0" not in text
    html = page.render(partly)
    tokens = html.partition("<caption>Tokens</caption>")[2].partition("</table>")[0]
    assert re.findall(r"<td[^>]*>(\w+)</td>", tokens) == ["unknown"] * 10


def test_partly_unknown_counts_are_lower_bounds(lake: LakeBuilder) -> None:
    """Partly unknown counts are lower bounds, and a note states how many cells are unknown."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", input_tokens=7000, model_calls=3)
    imported(lake, "a", "i2", "resolved", 1.0)
    report = build(lake.root, "trial")
    text = markdown.render(report)
    assert "| a | ≥ 7,000 |" in text
    assert "3.0 (of 1)" in text
    told = " ".join(note.text for note in report.notes)
    assert "a: tokens unknown in 1 of 2 cells; a: calls unknown in 1 of 2 cells" in told


def test_costs_are_compared_on_the_pairs_that_have_both(partly: Report) -> None:
    """The cost ratio and both amounts come from the pairs in which both costs are known.

    Lower bounds over all cells are stated separately.
    """
    told = headline(partly)
    assert told.endswith(
        f"it costs 1.20{TIMES} as much on the 2 of 4 pairs with both costs known ($1.20 against "
        "$1.00 per instance)."
    )
    leading = describe(partly)
    assert leading
    assert f"ratio of cost on 2 of 4 pairs with both costs known 1.20{TIMES}" in leading.summary
    (cost,) = [each.text for each in answers(partly, leading) if each.name == "cost"]
    compared, bounds = cost.split(" Over all cells that ran: ")
    assert "on the 2 of 4 pairs with both costs known: base $1.00 per cell, $1.00 per" in compared
    assert "≥" not in compared
    assert bounds == (
        "base $2.00 per cell, $2.00 per resolved cell; other ≥ $0.800 per cell, ≥ $0.800 per "
        "resolved cell."
    )
    assert {line.over.partition(";")[0] for line in leading.groups[2].lines} == {"2 of 4 pairs"}
    text = markdown.render(partly)
    assert "≥ $0.800 (of 3)" in text
    notes = " ".join(note.text for note in partly.notes)
    assert "Costs are lower bounds (other: no cost for 1 of 3 cells)." in notes


def test_unknown_costs_are_imputed_as_a_sensitivity_analysis(partly: Report) -> None:
    """A sensitivity analysis replaces unknown costs by the mean, the maximum and the known part."""
    assert partly.resampled
    unknown = partly.resampled.unknown_costs
    assert unknown
    assert (unknown.pairs, unknown.cells) == (3, 1)
    assert unknown.at_mean == pytest.approx(3.6 / 5)
    assert unknown.at_maximum == pytest.approx(3.9 / 5)
    assert (unknown.bounds.low, unknown.bounds.high) == pytest.approx((2.4 / 5, 3.9 / 5))
    leading = describe(partly)
    assert leading
    lines = {line.name: line.value for line in leading.groups[3].lines}
    assert lines["cost, ratio, unknown ones as the arm's mean"] == f"0.720{TIMES}"
    assert lines["cost, ratio, unknown ones from least to maximum"] == (
        f"0.480{TIMES} to 0.780{TIMES}"
    )


def test_the_known_part_of_a_cost_is_its_lower_bound() -> None:
    """The known part of a cost is its lower bound; an unknown cost is at least 0."""
    found = impute([(None, 5.0), (1.0, 1.0)], [(1.0, 1.0), (2.0, 2.0)])
    assert found
    assert (found.at_mean, found.bounds) == (0.5, Interval(0.5, 0.5))
    found = impute([(None, None), (0.0, 0.0), (1.0, 1.0)], [(1.0, 1.0)] * 3)
    assert found
    assert found.bounds == Interval(1.5, 3.0)
    assert impute([(1.0, 1.0)], [(2.0, 2.0)]) is None
    assert impute([(None, None)], [(2.0, 2.0)]) is None


def test_without_any_cost_the_report_says_so_once(lake: LakeBuilder) -> None:
    """If no cost is known, the report says so once and compares no costs."""
    lake.declare(["a", "b"], ["i1"], environment="imported")
    imported(lake, "a", "i1", "resolved", None)
    imported(lake, "b", "i1", "unresolved", None)
    report = build(lake.root, "trial")
    assert headline(report).endswith("; the cost ratio is unknown.")
    assert [note.text for note in report.notes if "cost" in note.text.lower()] == [
        "No cost is known."
    ]
    assert "0 calls without" not in markdown.render(report)


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
    assert headline(report).endswith("; the cost ratio is unknown.")
    text, html = markdown.render(report), page.render(report)
    assert "| unmetered | unmetered | unmetered |" in text
    assert "<td>unmetered</td><td>unmetered</td><td>unmetered</td>" in html
    assert "$0" not in text.partition("## Arms")[2].partition("##")[0]
    told = [note.text for note in report.notes if note.text.startswith("Not metered")]
    assert told == [
        "Not metered: all costs of free are 0 although calls were made, so they count as unknown."
    ]
    leading = describe(report)
    assert leading
    (cost,) = [each.text for each in answers(report, leading) if each.name == "cost"]
    assert "free was not metered (all its costs are 0)" in cost
