"""The question which arm is worth its cost, in words, tables and figures."""

import pytest

from reports.build import build
from reports.rendering import markdown, page
from reports.rendering.sections import Section
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts
from tests.reports.shown import section as shown

pytestmark = pytest.mark.sampled(4)


def three_arms(lake: LakeBuilder, *names: str, **declared: float) -> None:
    """Write a lake with three arms on the frontier."""
    instances = [f"i{n}" for n in range(10)]
    lake.declare(names, instances, **declared)
    for place, arm in enumerate(names):
        for n, instance in enumerate(instances):
            outcome = "resolved" if n <= 3 * place else "unresolved"
            lake.cell(arm, instance, outcome, cost_usd=[0.5, 1.0, 4.0][place])


def section(lake: LakeBuilder) -> Section:
    return shown(build(lake.root, "trial"), "worth")


def test_the_answer_walks_along_the_frontier(lake: LakeBuilder) -> None:
    """The answer names the arms of the frontier, and the price of each step."""
    three_arms(lake, "quick", "middle", "careful", willingness_to_pay=3.0)
    assert section(lake).answer.startswith(
        "quick is the cheapest arm ($0.500 per instance, 10.0 %). From there to middle ($1.00, "
        "40.0 %) the cost of each further resolved instance cannot be told. From there to careful "
        "($4.00, 70.0 %) the cost of each further resolved instance cannot be told. At the "
        "declared $3.00 for a resolved instance, middle has the highest net benefit ($0.200 per "
        "instance; chance that no arm has a higher one: "
    )


def test_the_price_of_a_step_has_its_interval(lake: LakeBuilder) -> None:
    """A difference of resolution that is clear of 0 limits the price of a further instance."""
    lake.declare(["quick", "careful"], instance_ids(60), environment="imported")
    verdicts(lake, "quick", [place < 20 for place in range(60)], [0.5] * 60)
    verdicts(lake, "careful", [place < 50 for place in range(60)], [1.0] * 60)
    answer = section(lake).answer
    assert "each further resolved instance costs $1.00 (95 % interval $0.7" in answer


def test_one_arm_that_is_always_best_has_two_rows(lake: LakeBuilder) -> None:
    """The table of chances says once that one arm is the best at every value."""
    lake.declare(["worse", "better"], instance_ids(60), environment="imported")
    verdicts(lake, "worse", [place < 20 for place in range(60)], [2.0] * 60)
    verdicts(lake, "better", [place < 50 for place in range(60)], [1.0 + n % 2 for n in range(60)])
    chances = section(lake).tables[1]
    assert chances.caption.startswith("Chance to have the highest net benefit")
    assert [row[2] for row in chances.rows] == ["better", "better"]


def test_a_value_below_all_costs_says_so(lake: LakeBuilder) -> None:
    """If even the best arm costs more than it resolves is worth, the answer says so."""
    three_arms(lake, "quick", "middle", "careful", willingness_to_pay=0.1)
    assert section(lake).answer.endswith("It is worth less than it costs.")


def test_the_table_has_the_range_in_which_an_arm_is_best(lake: LakeBuilder) -> None:
    """Each arm of the frontier is the best between the prices of its two steps."""
    three_arms(lake, "quick", "middle", "careful")
    rows = {row[0]: row for row in section(lake).tables[0].rows}
    assert rows["quick"][-1] == "at most $1.67"
    assert rows["middle"][-1] == "$1.67 to $10.00"
    assert rows["careful"][-1] == "$10.00 or more"
    assert [row[2] for row in rows.values()] == ["1", "2", "3"]


def test_without_costs_the_section_is_one_line(lake: LakeBuilder) -> None:
    """Without a known cost there is neither figure nor table."""
    lake.declare(["a", "b"], ["i1"])
    for arm in ("a", "b"):
        lake.cell(arm, "i1", cost_usd=None, unpriced_calls=2)
    found = section(lake)
    assert found.answer == "This needs costs. Not compared: a and b, each because no cost is known."
    assert (found.tables, found.footnotes) == ((), ())
    assert 'id="frontier-figure"' not in page.render(build(lake.root, "trial"))


def test_one_arm_is_evaluated_alone(lake: LakeBuilder) -> None:
    """A single arm has a cost per resolved instance and no figure."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("a", "i2", "unresolved", cost_usd=2.0)
    assert section(lake).answer == (
        "a is the only arm to evaluate ($1.50 per instance, $3.00 per resolved one)."
    )
    assert 'id="frontier-figure"' not in page.render(build(lake.root, "trial"))


def test_the_markdown_has_the_same_tables(lake: LakeBuilder) -> None:
    """The Markdown report has the answer, each row and the definitions."""
    three_arms(lake, "quick", "middle", "careful", willingness_to_pay=3.0)
    text = markdown.render(build(lake.root, "trial"))
    assert "## Which arm is worth its cost?" in text
    assert "| middle | on the frontier | 2 | $1.00 | 40.0 % | $1.67 |" in text
    assert "van Hout 1994; Fenwick 2001" in text
