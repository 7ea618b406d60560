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
    places: dict[int, FrontierPlace] = {}
    for i in options:
        better = [
            j
            for j in options
            if costs[j] <= costs[i]
            and effects[j] >= effects[i]
            and (costs[j] < costs[i] or effects[j] > effects[i])
        ]
        if better:
            by = min(better, key=lambda j: (-effects[j], costs[j], j))
            places[i] = FrontierPlace("dominated", (by,))
    rest = sorted((i for i in options if i not in places), key=lambda i: (costs[i], i))
    distinct = [i for n, i in enumerate(rest) if n == 0 or costs[i] > costs[rest[n - 1]]]
    hull: list[int] = []
    for i in distinct:
        while len(hull) > 1 and _falls(hull[-2], hull[-1], i, costs, effects):
            hull.pop()
        hull.append(i)
    for i in rest:
        twin = next(j for j in distinct if costs[j] == costs[i])
        above = next((n for n, j in enumerate(hull) if costs[j] >= costs[i]), len(hull))
        if twin not in hull:
            places[i] = FrontierPlace("extended", (hull[above - 1], hull[above]))
        elif above == 0:
            places[i] = FrontierPlace("efficient")
        else:
            before = hull[above - 1]
            step = (costs[twin] - costs[before]) / (effects[twin] - effects[before])
            places[i] = FrontierPlace("efficient", (), before, step)
    return tuple(places[i] for i in options)


def _falls(a: int, b: int, c: int, costs: Sequence[float], effects: Sequence[float]) -> bool:
    """Return True if the step from `b` to `c` costs less per effect than that from `a` to `b`."""
    first = (costs[b] - costs[a]) * (effects[c] - effects[b])
    second = (costs[c] - costs[b]) * (effects[b] - effects[a])
    return first - second > _ROUNDING * max(first, second)
