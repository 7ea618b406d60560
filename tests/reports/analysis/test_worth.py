"""The economic evaluation of the arms of a lake."""

from contextlib import closing

import pytest

from reports.economics import Worth
from reports.questions.worth.analysis import read_worth
from reports.relations import open_marts
from reports.statistics.bootstrap import Bootstrap
from tests.reports.lake_fixture import LakeBuilder, declared

INSTANCES = [f"i{n}" for n in range(8)]
BOOTSTRAP = Bootstrap(resamples=2000)


def run(lake: LakeBuilder, arm: str, resolved: int, cost: float | None) -> None:
    """Let an arm resolve the first instances, each for about the same cost."""
    for n, name in enumerate(INSTANCES):
        cost_usd = None if cost is None else cost * (1 + n % 2 / 4)
        unpriced = 2 if cost is None else 0
        lake.cell(
            arm,
            name,
            "resolved" if n < resolved else "unresolved",
            cost_usd=cost_usd,
            unpriced_calls=unpriced,
        )


def worth(lake: LakeBuilder) -> Worth:
    with closing(open_marts(lake.root, "trial")) as connection:
        return read_worth(connection, declared(connection), BOOTSTRAP)


def test_arms_are_placed_against_the_frontier(lake: LakeBuilder) -> None:
    """Three arms are on the frontier, one is dominated, and one is between two others."""
    arms = {"cheap": (2, 1.0), "middle": (3, 3.0), "good": (5, 4.0), "bad": (4, 5.0), "top": (6, 8)}
    lake.declare(list(arms), INSTANCES)
    for arm, (resolved, cost) in arms.items():
        run(lake, arm, resolved, cost)
    found = worth(lake)
    assert [arm.arm for arm in found.arms] == ["cheap", "middle", "good", "bad", "top"]
    assert {arm.arm: arm.standing for arm in found.arms} == {
        "cheap": "efficient", "middle": "extended", "good": "efficient", "bad": "dominated",
        "top": "efficient",
    }  # fmt: skip
    assert found.arm("middle").beaten_by == ("cheap", "good")
    assert found.arm("bad").beaten_by == ("good",)
    good, top = found.arm("good"), found.arm("top")
    assert good.increment is not None
    assert top.increment is not None
    # A cell costs 1.125 times the given amount on average.
    assert good.increment.usd == pytest.approx(1.125 * 3 / (3 / 8))
    assert (top.increment.after, top.increment.usd) == ("good", pytest.approx(1.125 * 4 * 8))
    assert (good.best_from, good.best_to) == (good.increment.usd, top.increment.usd)
    assert (found.arm("cheap").best_from, top.best_to) == (0.0, None)
    assert (found.arm("bad").best_from, found.arm("bad").best_to) == (None, None)


def test_acceptability_is_over_all_arms_and_values(lake: LakeBuilder) -> None:
    """The chances add up to 1 at every value, and the declared value is one of them."""
    lake.declare(["a", "b", "twin"], INSTANCES, willingness_to_pay=7.0)
    run(lake, "a", 2, 1.0)
    run(lake, "b", 6, 2.0)
    run(lake, "twin", 6, 2.0)
    found = worth(lake)
    curve = found.acceptability
    assert curve is not None
    assert 7.0 in curve.values
    assert 1.0 in curve.values
    assert list(curve.values) == sorted(set(curve.values))
    for place in range(len(curve.values)):
        assert sum(share[place] for share in curve.shares.values()) == pytest.approx(1)
    assert curve.shares["b"] == pytest.approx(curve.shares["twin"])
    assert curve.shares["a"][0] > 0.99
    assert (curve.frontier[0], curve.frontier[-1]) == ("a", "b")
    benefit = found.arm("b").net_benefit
    assert benefit is not None
    assert benefit.value == pytest.approx(7 * 6 / 8 - 2 * 1.125)
    assert benefit.interval.low < benefit.value < benefit.interval.high


def test_arms_without_usable_costs_are_left_out_with_the_reason(lake: LakeBuilder) -> None:
    """Controls, unmetered arms and arms with few or no known costs have no place."""
    lake.declare(["a", "unmetered", "unknown", "sparse"], INSTANCES)
    lake.write("experiments", "gold", [{**_declaration(lake), "agent": "gold", "arm_order": 4}])
    run(lake, "a", 3, 1.0)
    run(lake, "gold", 8, 0.0)
    run(lake, "unmetered", 3, 0.0)
    run(lake, "unknown", 3, None)
    for n, name in enumerate(INSTANCES):
        lake.cell("sparse", name, cost_usd=1.0, unpriced_calls=0 if n < 3 else 1)
    found = worth(lake)
    assert [arm.arm for arm in found.arms] == ["a"]
    assert found.left_out == {
        "unmetered": "unmetered", "unknown": "unknown", "sparse": "sparse", "gold": "control",
    }  # fmt: skip
    assert found.acceptability is None


def _declaration(lake: LakeBuilder) -> dict[str, object]:
    """Return the columns of a declared arm."""
    with closing(open_marts(lake.root, "trial")) as connection:
        cursor = connection.execute(
            "select * exclude (experiment, arm) from main.experiments limit 1"
        )
        names = [column[0] for column in cursor.description]
        return dict(zip(names, cursor.fetchone() or (), strict=True))
