"""The headline answers which arm is best, how sure that is, and at which price."""

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.build import build
from reports.rendering.headline import headline
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import instance_ids, verdicts

COSTS = {"cheap": 0.1, "middle": 1.0, "best": 2.0, "next": 4.0}


def write(lake: LakeBuilder, resolved: Mapping[str, int], instances: int) -> str:
    """Write arms of which each resolves the first ones of the instances. Return the headline."""
    lake.declare([*resolved], instance_ids(instances), environment="imported")
    for arm, number in resolved.items():
        costs = [COSTS.get(arm, 1.0) * (1 + place % 2 / 10) for place in range(instances)]
        verdicts(lake, arm, [place < number for place in range(instances)], costs)
    return headline(build(lake.root, "trial"))


def test_the_best_arm_leads_against_the_next_and_the_cheapest(lake: LakeBuilder) -> None:
    """The order of the file does not matter, and the p-value is adjusted for all pairs."""
    text = write(lake, {"cheap": 10, "middle": 20, "next": 60, "best": 90}, 100)
    assert text == (
        "best resolves most of 4 arms (90 of 100, 90.0 %). Its lead over next, the next, is clear: "
        "30.0 percentage points (90 of 100 against 60 of 100, p < 0.001 by Holm over all pairs); "
        "it costs 0.500\N{MULTIPLICATION SIGN} as much ($2.10 against $4.20 per instance). cheap, "
        "the cheapest arm on the frontier, resolves 10.0 %, 80.0 points fewer, "
        "for $0.105 per cell against $2.10."
    )


def test_a_difference_that_may_be_chance_says_what_is_possible(lake: LakeBuilder) -> None:
    """Seventeen equal verdicts do not show that arms are alike. Equal costs are equal."""
    text = write(lake, {"a": 17, "b": 17}, 17)
    assert text.startswith("b resolves as many as a (17 of 17 against 17 of 17, p = 1.00; ")
    assert text.endswith(
        "points are possible); it costs the same ($1.05 against $1.05 per instance)."
    )


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
    assert "cand resolves clearly fewer than base: 20.0 percentage points" in text
    assert (
        "), but only if lost cells count as not resolved: without them it is 0.0 points "
        "(p = 1.00, 48 pairs); " in text
    )
