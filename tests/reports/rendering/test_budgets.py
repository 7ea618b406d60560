"""The question what a budget buys, in words, tables and figures."""

import pytest

from reports.build import build
from reports.rendering import markdown, page
from reports.rendering.sections import Section
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.shown import section as shown

pytestmark = pytest.mark.sampled(2)

COSTS = (0.01, 0.02, 0.05, 0.1)


def two_arms(lake: LakeBuilder) -> None:
    """Write a lake in which the second arm resolves more, for ten times the cost."""
    names = [f"i{n}" for n in range(4)]
    lake.declare(["quick", "careful"], names)
    for n, name in enumerate(names):
        lake.cell("quick", name, "resolved" if n < 2 else "unresolved", cost_usd=COSTS[n])
        lake.cell("careful", name, "resolved", cost_usd=10 * COSTS[n])


def section(lake: LakeBuilder) -> Section:
    return shown(build(lake.root, "trial"), "budget")


def test_the_answer_names_the_best_arm_by_limit(lake: LakeBuilder) -> None:
    """The answer says from which limit on another arm resolves most."""
    two_arms(lake)
    assert section(lake).answer.startswith(
        "With a limit of $0.0100 per instance, quick resolves most (25.0 %); "
        "from $0.500 on, careful (75.0 %)."
    )


@pytest.mark.parametrize("number", [2, 5, 6, 8])
def test_the_answer_names_every_leader_or_says_how_many_it_leaves_out(
    lake: LakeBuilder, number: int
) -> None:
    """Each arm resolves more than the one before it, at prices that are no round numbers."""
    arms, names = [f"arm{n}" for n in range(number)], [f"i{n}" for n in range(number)]
    lake.declare(arms, names)
    for n, arm in enumerate(arms):
        for place, name in enumerate(names):
            outcome = "resolved" if place <= n else "unresolved"
            lake.cell(arm, name, outcome, cost_usd=0.03 * 10**n)
    answer = section(lake).answer.split(". ")[0]
    assert answer.startswith("With a limit of $0.0300 per instance, arm0 resolves most (")
    last = {1: "from $0.300 on, arm1", 7: "from $300,000.00 on, arm7"}.get(number - 1, "")
    assert answer.endswith(f"{last} (100.0 %)") or not last
    named = {arm for arm in arms if f"{arm} " in answer}
    left_out = number - len(named)
    assert left_out == 0 or f"after {left_out + 1} further changes of the leader" in answer


def test_the_tables_have_shares_and_spend_by_limit(lake: LakeBuilder) -> None:
    """Each limit has its share and its total spend; the last column has no limit."""
    two_arms(lake)
    shares, spend, _ = section(lake).tables
    assert shares.header[-1] == "no limit"
    by_limit = dict(zip(shares.header, shares.rows[1], strict=True))
    assert by_limit["$0.0100"] == "0.0 %"
    assert by_limit["no limit"] == "100.0 %"
    spent = dict(zip(spend.header, spend.rows[1], strict=True))
    assert spent["$0.0100"] == "$0.0400"
    assert spent["no limit"] == "$1.80"


def test_one_arm_has_its_own_sentence(lake: LakeBuilder) -> None:
    """A single arm is described by its share at each limit."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("a", "i2", cost_usd=2.0)
    assert section(lake).answer.startswith("a resolves 50.0 % with $1.00 and 100.0 % with $2.00")


def test_unknown_costs_are_counted(lake: LakeBuilder) -> None:
    """A resolved cell of unknown cost is not in the curve, and a footnote counts it."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("a", "i2", cost_usd=2.0, unpriced_calls=1)
    found = section(lake)
    assert found.footnotes[-1].endswith("so that it is a lower bound: a 1.")
    assert dict(zip(found.tables[0].header, found.tables[0].rows[0], strict=True))["no limit"] == (
        "50.0 %"
    )


def test_page_and_markdown_have_the_curves(lake: LakeBuilder) -> None:
    """The page has three figures, and the Markdown the tables."""
    two_arms(lake)
    report = build(lake.root, "trial")
    html = page.render(report)
    for name in ("budget-cost", "budget-total", "budget-calls"):
        assert f'id="{name}-figure"' in html
    assert "## What does a budget buy?" in markdown.render(report)
