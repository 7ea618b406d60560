"""The efficient frontier, compared with linear programs over all mixtures of options."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from reports.estimates import FrontierPlace
from reports.statistics.frontier import efficient_frontier

WHOLE = st.integers(0, 6)
OPTIONS = st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=9)


def is_beaten(option: int, costs: Sequence[float], effects: Sequence[float]) -> bool:
    """Return True if a mixture of options costs no more, achieves no less, and is better in one."""
    mixture = linprog(
        np.array(costs) - np.array(effects),
        A_ub=[costs, [-effect for effect in effects]],
        b_ub=[costs[option], -effects[option]],
        A_eq=[[1] * len(costs)],
        b_eq=[1],
    )
    return bool(mixture.fun < costs[option] - effects[option] - 1e-7)


def is_dominated(option: int, costs: Sequence[float], effects: Sequence[float]) -> bool:
    """Return True if a single option is at least as good in both and better in one."""
    own = costs[option], effects[option]
    return any(
        cost <= own[0] and effect >= own[1] and (cost, effect) != own
        for cost, effect in zip(costs, effects, strict=True)
    )


@given(OPTIONS)
def test_a_place_is_that_of_a_linear_program(options: list[tuple[int, int]]) -> None:
    """An option is efficient if and only if no mixture beats it, with ties and useless options."""
    costs, effects = zip(*options, strict=True)
    for i, place in enumerate(efficient_frontier(costs, effects)):
        assert (place.standing == "efficient") is not is_beaten(i, costs, effects)
        assert (place.standing == "dominated") is is_dominated(i, costs, effects)


@pytest.mark.full
@given(OPTIONS)
def test_the_named_options_beat(options: list[tuple[int, int]]) -> None:
    """The options that a place names dominate it, one alone or two in some mixture."""
    costs, effects = zip(*options, strict=True)
    for i, place in enumerate(efficient_frontier(costs, effects)):
        rivals = [i, *place.beaten_by]
        own_costs, own_effects = [costs[j] for j in rivals], [effects[j] for j in rivals]
        assert (
            len(place.beaten_by) == {"efficient": 0, "dominated": 1, "extended": 2}[place.standing]
        )
        assert is_beaten(0, own_costs, own_effects) is (place.standing != "efficient")


def test_a_worked_example() -> None:
    """Of five options one is dominated, one is between two others, and three are efficient."""
    costs, effects = [1.0, 2.0, 3.0, 4.0, 8.0], [0.2, 0.3, 0.25, 0.6, 0.7]
    assert efficient_frontier(costs, effects) == (
        FrontierPlace("efficient"),
        FrontierPlace("extended", (0, 3)),
        FrontierPlace("dominated", (1,)),
        FrontierPlace("efficient", (), 0, pytest.approx(7.5)),
        FrontierPlace("efficient", (), 3, pytest.approx(40.0)),
    )
