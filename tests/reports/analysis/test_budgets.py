"""Budget curves, against counts over the cells."""

import random
from contextlib import closing
from itertools import pairwise

import pytest

from reports.questions.budgets.analysis import BudgetComparison, BudgetStep, read_budgets
from reports.relations import open_marts
from tests.reports.lake_fixture import LakeBuilder, declared

Used = dict[str, list[tuple[float | None, int, bool]]]
"""Cost, calls and verdict of each cell by arm."""


def read(lake: LakeBuilder) -> tuple[BudgetComparison, ...]:
    with closing(open_marts(lake.root, "trial")) as connection:
        return read_budgets(connection, declared(connection))


def fill(lake: LakeBuilder, arms: Used) -> None:
    """Write one cell per instance and arm."""
    names = [f"i{n}" for n in range(max(map(len, arms.values())))]
    lake.declare(list(arms), names)
    for arm, cells in arms.items():
        for name, (cost, calls, resolved) in zip(names, cells, strict=False):
            lake.cell(
                arm,
                name,
                "resolved" if resolved else "unresolved",
                cost_usd=cost,
                unpriced_calls=1 if cost is None else 0,
                model_calls=calls,
            )


def at(limit: float, used: list[tuple[float, bool]]) -> BudgetStep:
    """Return the result at a limit, by its definition."""
    resolved = sum(verdict for amount, verdict in used if amount <= limit)
    return BudgetStep(limit, resolved, sum(min(amount, limit) for amount, _ in used))


def test_curves_are_those_of_the_definition(lake: LakeBuilder) -> None:
    """Steps and table count what is resolved within each limit, with ties and unknown costs."""
    draw = random.Random(5)
    arms: Used = {
        arm: [
            (
                draw.choice([0.125, 0.25, 0.5, 2.0, 7.5, None]),
                draw.randint(1, 9),
                draw.random() < 0.5,
            )
            for _ in range(25)
        ]
        for arm in ("a", "b")
    }
    fill(lake, arms)
    for budget in read(lake):
        assert [curve.arm for curve in budget.curves] == ["a", "b"]
        for curve in budget.curves:
            amounts = [
                (cost if budget.kind == "usd" else float(calls), resolved)
                for cost, calls, resolved in arms[curve.arm]
            ]
            used = [(amount, resolved) for amount, resolved in amounts if amount is not None]
            limits = sorted({amount for amount, _ in used})
            expected = [at(limit, used) for limit in limits]
            assert [step.limit for step in curve.steps] == limits
            for found, wanted in zip(
                (*curve.steps, *curve.at),
                (*expected, *(at(limit, used) for limit in budget.limits)),
                strict=True,
            ):
                assert found.resolved == wanted.resolved
                assert found.spent == pytest.approx(wanted.spent)
            lost = sum(verdict for amount, verdict in amounts if amount is None)
            assert budget.unknown.get(curve.arm, 0) == lost


@pytest.mark.full
def test_leaders_are_those_of_the_definition(lake: LakeBuilder) -> None:
    """At each limit, the leader resolves no less than any arm; before its own, less than it."""
    draw = random.Random(11)
    arms: Used = {
        arm: [
            (round(draw.lognormvariate(level, 1.0), 4), draw.randint(1, 40), draw.random() < skill)
            for _ in range(60)
        ]
        for arm, level, skill in (
            ("a", -4.0, 0.2), ("b", -2.0, 0.4), ("c", 0.0, 0.6), ("d", 2.0, 0.8), ("e", 5.0, 1.0),
            ("f", 5.0, 0.1),
        )
    }  # fmt: skip
    fill(lake, arms)
    for budget in read(lake):
        number = 0 if budget.kind == "usd" else 1

        def resolved(arm: str, limit: float, number: int = number) -> int:
            return sum(bool(cell[2]) for cell in arms[arm] if float(cell[number] or 0) <= limit)

        limits = sorted({float(cell[number] or 0) for cells in arms.values() for cell in cells})
        assert len(budget.leaders) > 2
        assert {leader.limit for leader in budget.leaders} <= set(limits)
        for limit in limits:
            most = max(resolved(arm, limit) for arm in arms)
            leading = [leader for leader in budget.leaders if leader.limit <= limit]
            assert resolved(leading[-1].arm, limit) == most if leading else most == 0
        for before, after in pairwise(budget.leaders):
            assert resolved(before.arm, after.limit) < resolved(after.arm, after.limit)
            assert after.share == resolved(after.arm, after.limit) / 60


def test_controls_and_unknown_amounts_have_no_curve(lake: LakeBuilder) -> None:
    """Without costs only the calls are left, and an arm without calls has no curve."""
    lake.declare(["a", "free"], ["i1"])
    lake.cell("a", "i1", cost_usd=None, unpriced_calls=2)
    lake.cell("free", "i1", cost_usd=0.0, model_calls=0)
    (calls,) = read(lake)
    assert calls.kind == "calls"
    assert [curve.arm for curve in calls.curves] == ["a"]
