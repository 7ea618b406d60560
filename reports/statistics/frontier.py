"""The efficient frontier of options that cost and achieve something."""

from collections.abc import Sequence

from reports.estimates import FrontierPlace

_ROUNDING = 1e-12
"""Relative differences below this are rounding errors."""


def efficient_frontier(
    costs: Sequence[float], effects: Sequence[float]
) -> tuple[FrontierPlace, ...]:
    """Return the place of each option, in the given order.

    An option is dominated if another one costs no more and achieves no less, and is better in one
    of the two. It is dominated by extension if a mixture of two others is better than it, which
    is so if the incremental cost per effect falls behind it on the way to dearer options. All
    others are efficient: each has the highest net benefit at some value of an effect. Options that
    are equal in both share a place. The values must be finite.

    Cantor, S. B. (1994). Cost-effectiveness analysis, extended dominance, and ethics: a
    quantitative assessment. Medical Decision Making 14, 259-265. Karlsson, G. and Johannesson, M.
    (1996). The decision rules of cost-effectiveness analysis. PharmacoEconomics 9, 113-120.
    """
    options = range(len(costs))
    beaten = {i: by for i in options if (by := _dominator(i, costs, effects)) is not None}
    ranked = sorted((i for i in options if i not in beaten), key=lambda i: (costs[i], i))
    distinct = [i for n, i in enumerate(ranked) if n == 0 or costs[i] > costs[ranked[n - 1]]]
    hull = _hull(distinct, costs, effects)
    before = dict(zip(hull[1:], hull[:-1], strict=True))
    places = {i: FrontierPlace("dominated", (by,)) for i, by in beaten.items()}
    for i in ranked:
        twin = next(j for j in distinct if costs[j] == costs[i])
        if twin not in hull:
            places[i] = FrontierPlace("extended", _neighbours(twin, hull, costs))
            continue
        after = before.get(twin)
        step = None if after is None else _slope(after, twin, costs, effects)
        places[i] = FrontierPlace("efficient", (), after, step)
    return tuple(places[i] for i in options)


def _dominator(i: int, costs: Sequence[float], effects: Sequence[float]) -> int | None:
    """Return the most effective option that dominates `i`, the cheapest one of several."""
    better = [
        j
        for j in range(len(costs))
        if costs[j] <= costs[i]
        and effects[j] >= effects[i]
        and (costs[j] < costs[i] or effects[j] > effects[i])
    ]
    return min(better, key=lambda j: (-effects[j], costs[j], j), default=None)


def _hull(ranked: Sequence[int], costs: Sequence[float], effects: Sequence[float]) -> list[int]:
    """Return the undominated options with rising incremental costs, by cost."""
    hull: list[int] = []
    for i in ranked:
        while len(hull) > 1 and _falls(hull[-2], hull[-1], i, costs, effects):
            hull.pop()
        hull.append(i)
    return hull


def _falls(a: int, b: int, c: int, costs: Sequence[float], effects: Sequence[float]) -> bool:
    """Return True if the step from `b` to `c` costs less per effect than that from `a` to `b`."""
    first = (costs[b] - costs[a]) * (effects[c] - effects[b])
    second = (costs[c] - costs[b]) * (effects[b] - effects[a])
    return first - second > _ROUNDING * max(first, second)


def _slope(a: int, b: int, costs: Sequence[float], effects: Sequence[float]) -> float:
    return (costs[b] - costs[a]) / (effects[b] - effects[a])


def _neighbours(i: int, hull: Sequence[int], costs: Sequence[float]) -> tuple[int, int]:
    """Return the options of the frontier between which `i` lies."""
    above = next(n for n, j in enumerate(hull) if costs[j] > costs[i])
    return hull[above - 1], hull[above]
