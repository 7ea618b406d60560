"""The headline answers which arm is best, how sure that is, and at which price."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.build import build
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts
from tests.reports.shown import headline

COSTS = {"cheap": 0.1, "middle": 1.0, "best": 2.0, "next": 4.0}


def write(lake: LakeBuilder, resolved: Mapping[str, int], instances: int) -> str:
    """Write arms of which each resolves the first ones of the instances. Return the headline."""
    lake.declare([*resolved], instance_ids(instances), environment="imported")
    for arm, number in resolved.items():
        costs = [COSTS.get(arm, 1.0) * (1 + place % 2 / 10) for place in range(instances)]
        verdicts(lake, arm, [place < number for place in range(instances)], costs)
    return headline(build(lake.root, "trial"))


def test_the_best_arm_leads_against_all_others_and_the_cheapest(lake: LakeBuilder) -> None:
    """The order of the file does not matter, and the p-value counts all three comparisons."""
    text = write(lake, {"cheap": 10, "middle": 20, "next": 60, "best": 90}, 100)
    assert text == (
        "best resolves most of 4 arms (90 of 100, 90.0 %), clearly more than any other "
        "(p < 0.001); it costs $2.10 per instance, next $4.20. cheap, the cheapest arm, costs "
        "$0.105 and resolves clearly fewer (10.0 %)."
    )


def test_arms_that_may_be_as_good_are_named(lake: LakeBuilder) -> None:
    """Only two of them are named. The cheapest of all is one of them, or not shown to be worse."""
    text = write(lake, {"cheap": 3, "a": 18, "b": 17, "c": 17, "next": 19, "best": 20}, 20)
    assert text == (
        "best resolves most of 6 arms (20 of 20, 100.0 %), but next (95.0 %), a (90.0 %) and 2 "
        "others may be as good; it costs $2.10 per instance, next $4.20. cheap, the cheapest arm, "
        "costs $0.105 and resolves clearly fewer (15.0 %)."
    )
    lake = LakeBuilder(lake.root, "cheapest")
    lake.declare(["x", "y", "z"], ["i1"])
    for place, arm in enumerate("xyz"):
        lake.cell(arm, "i1", cost_usd=1.0 + place)
    text = headline(build(lake.root, "cheapest"))
    assert text.endswith("x resolves most of 3 arms (1 of 1, 100.0 %), but y (100.0 %) and z "
        "(100.0 %) may be as good; it costs $1.00 per instance, y $2.00.")  # fmt: skip


def test_a_difference_that_may_be_chance_says_what_can_show(lake: LakeBuilder) -> None:
    """Seventeen equal verdicts do not show that arms are alike. Equal costs are equal."""
    text = write(lake, {"a": 17, "b": 17}, 17)
    assert text == (
        "No difference seen between b and a: 17 of 17 against 17 of 17 (p = 1.00); 17 instances "
        "can show only differences above 19.5 points; both cost about the same ($1.05 against "
        "$1.05 per instance)."
    )


def test_costs_that_no_interval_tells_apart_are_not_compared(lake: LakeBuilder) -> None:
    """A ratio is only said where its interval excludes 1, and never with an unlimited one."""
    lake.declare(["a", "b"], ["i1"])
    lake.cell("a", "i1", cost_usd=1.0)
    lake.cell("b", "i1", cost_usd=9.0)
    text = headline(build(lake.root, "trial"))
    assert text.endswith(
        "; the data do not show which costs more ($9.00 against $1.00 per instance)."
    )
    wide = LakeBuilder(lake.root, "wide")
    wide.declare(["a", "b"], instance_ids(10), environment="imported")
    for arm, dear in {"a": 3, "b": 4}.items():
        costs = [20.0 if place % 10 == dear else 1.0 for place in range(10)]
        verdicts(wide, arm, [True] * 10, costs)
    text = headline(build(lake.root, "wide"))
    assert "the data do not show which costs more" in text


@pytest.mark.full
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None
)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=6))
def test_no_arm_is_better_than_the_one_that_leads(lake: LakeBuilder, resolved: list[int]) -> None:
    """The candidate of the first comparison has the highest rate, and its baseline the next."""
    name = "-".join(map(str, resolved))
    at = LakeBuilder(lake.root / name, "trial")
    write(at, {f"arm-{place}": number for place, number in enumerate(resolved)}, 12)
    report = build(at.root, "trial")
    first = report.comparisons[0]
    ordered = sorted((arm.resolved for arm in report.arms), reverse=True)
    leading = report.arm(first.candidate).resolved, report.arm(first.baseline).resolved
    assert leading == (ordered[0], ordered[1])


def test_lost_cells_that_decide_are_part_of_the_sentence(lake: LakeBuilder) -> None:
    """The same sentence says what the pairs without a lost cell show."""
    lake.declare(["base", "cand"], instance_ids(60), environment="imported")
    for place, instance in enumerate(instance_ids(60)):
        lake.cell("base", instance, "resolved" if place < 40 else "unresolved")
        if place < 12:
            lake.attempt("cand", instance, outcome="infrastructure")
        else:
            lake.cell("cand", instance, "resolved" if place < 40 else "unresolved")
    text = headline(build(lake.root, "trial"))
    assert text.startswith(
        "cand resolves clearly fewer than base: 28 of 60 against 40 of 60 (20.0 points, p < 0.001)"
        ", but only if lost cells count as failures: without them it is 0.0 points "
        "(p = 1.00, 48 pairs); "
    )


def test_another_way_to_count_may_have_another_arm_lead(lake: LakeBuilder) -> None:
    """If a worse arm is the best of the cells with a verdict, the same sentence says so."""
    lake.declare(["a", "b", "c"], instance_ids(40), environment="imported")
    verdicts(lake, "a", [place < 36 for place in range(40)])
    verdicts(lake, "b", [False] * 40)
    verdicts(lake, "c", [True] * 25, ids=instance_ids(25))
    for instance in instance_ids(40)[25:]:
        lake.attempt("c", instance, outcome="infrastructure")
    text = headline(build(lake.root, "trial"))
    assert text.startswith(
        "a resolves most of 3 arms (36 of 40, 90.0 %), more than any other (p = "
    )
    assert "of the cells with a verdict c resolves more (100.0 % against 90.0 %); " in text
