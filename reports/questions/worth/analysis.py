"""Economic evaluation of the arms: frontier, net benefit, acceptability.

Effects are shares of the planned cells, as everywhere in a report. Costs are means over the cells
with a fully known cost, so that an arm with a few unknown costs keeps its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf, log10
from typing import TYPE_CHECKING

from reports.economics import Acceptability, ArmWorth, Increment, LeftOut, Worth
from reports.estimates import Estimate, Interval
from reports.format import round_values
from reports.statistics.bootstrap import Bootstrap, settings_for
from reports.statistics.fieller import fieller_interval
from reports.statistics.frontier import efficient_frontier
from reports.statistics.netbenefit import acceptability, net_benefit, select_preferred
from reports.types import CONTROLS

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

POINTS_PER_DECADE = 12
"""Values of a resolved instance in each factor of ten of the acceptability curve."""

BEYOND = 10
"""Factor by which the curve exceeds the range of relevant amounts."""


@dataclass(frozen=True)
class _Sums:
    """Counts and costs of the arms at each instance: instances × arms."""

    planned: Numbers
    resolved: Numbers
    priced: Numbers
    cost: Numbers

    def of(self, arms: Sequence[int]) -> _Sums:
        """Return the columns of some arms."""
        columns = (self.planned, self.resolved, self.priced, self.cost)
        return _Sums(*(column[:, list(arms)] for column in columns))

    @property
    def rates(self) -> Numbers:
        """Resolved share of the planned cells, by arm."""
        rates: Numbers = self.resolved.sum(axis=0) / self.planned.sum(axis=0)
        return rates

    @property
    def costs(self) -> Numbers:
        """Mean cost of the priced cells, by arm."""
        costs: Numbers = self.cost.sum(axis=0) / self.priced.sum(axis=0)
        return costs


def read_worth(
    connection: DuckDBPyConnection, arms: Collection[str], bootstrap: Bootstrap | None = None
) -> Worth:
    """Evaluate these declared arms, except controls and arms without usable costs.

    `connection` has the marts, as created by `reports.relations.open_marts`.
    """
    rows = connection.execute(
        """
        select arm, declared.agent, is_unmetered, willingness_to_pay
        from staging.experiments as declared
        inner join marts.arms using (arm)
        where arm in (select unnest($1))
        order by declared.position, arm
        """,
        [list(arms)],
    ).fetchall()
    sums = _read_sums(connection, [arm for arm, *_ in rows])
    left_out: dict[str, LeftOut] = {}
    places: list[int] = []
    for place, (arm, agent, is_unmetered, _) in enumerate(rows):
        planned, priced = sums.planned[:, place].sum(), sums.priced[:, place].sum()
        if agent in CONTROLS:
            left_out[arm] = "control"
        elif is_unmetered or (priced and not sums.cost[:, place].any()):
            left_out[arm] = "unmetered"
        elif not priced:
            left_out[arm] = "unknown"
        elif 2 * priced < planned:
            left_out[arm] = "sparse"
        else:
            places.append(place)
    instances = len(sums.planned)
    bootstrap = bootstrap or settings_for(instances)
    value = rows[0][-1]
    named = [(rows[place][0], place) for place in places]
    evaluated, curve = _evaluate(named, sums.of(places), value, bootstrap)
    return Worth(
        arms=evaluated,
        left_out=left_out,
        willingness_to_pay=value,
        acceptability=curve,
        instances=instances,
        resamples=bootstrap.resamples,
        seed=bootstrap.seed,
    )


def _read_sums(connection: DuckDBPyConnection, arms: Sequence[str]) -> _Sums:
    import numpy as np

    columns = connection.execute(
        """
        select
            list_position($1, arm) - 1 as arm,
            dense_rank() over (order by instance_id) - 1 as instance,
            planned::double as planned,
            resolved::double as resolved,
            priced::double as priced,
            cost_usd
        from marts.arm_instances
        where arm in (select unnest($1))
        """,
        [list(arms)],
    ).fetchnumpy()
    shape = (len(np.unique(columns["instance"])), len(arms))
    matrices = []
    for name in ("planned", "resolved", "priced", "cost_usd"):
        matrix = np.zeros(shape)
        matrix[columns["instance"], columns["arm"]] = columns[name]
        matrices.append(matrix)
    return _Sums(*matrices)


def _evaluate(
    named: Sequence[tuple[str, int]], sums: _Sums, value: float | None, bootstrap: Bootstrap
) -> tuple[tuple[ArmWorth, ...], Acceptability | None]:
    """Return the arms by ascending cost, and their acceptability."""
    if not named:
        return (), None
    rates, costs = sums.rates.tolist(), sums.costs.tolist()
    places = efficient_frontier(costs, rates)
    drawn = _resample(sums, bootstrap) if len(sums.planned) > 1 else None
    benefits = _net_benefits(value, sums, drawn, bootstrap)
    arms = []
    for i, (arm, position) in enumerate(named):
        place, increment, best_from, best_to = places[i], None, None, None
        if place.after is not None and place.incremental is not None:
            interval = _step_interval(sums, place.after, i)
            increment = Increment(named[place.after][0], place.incremental, interval)
        if place.standing == "efficient":
            best_from = place.incremental or 0.0
            later = [
                step.incremental
                for j, step in enumerate(places)
                if step.incremental is not None and costs[j] > costs[i]
            ]
            best_to = min(later, default=None)
        arms.append(
            ArmWorth(
                arm=arm,
                position=position,
                rate=rates[i],
                cost_usd=costs[i],
                priced=int(sums.priced[:, i].sum()),
                planned=int(sums.planned[:, i].sum()),
                standing=place.standing,
                beaten_by=tuple(named[by][0] for by in place.beaten_by),
                increment=increment,
                best_from=best_from,
                best_to=best_to,
                net_benefit=benefits[i],
            )
        )
    curve = None
    if drawn is not None and len(named) > 1:
        curve = _compute_acceptability(
            [arm for arm, _ in named], sums, drawn, _list_values(arms, value)
        )
    return tuple(sorted(arms, key=lambda arm: (arm.cost_usd, -arm.rate, arm.position))), curve


def _step_interval(sums: _Sums, first: int, second: int) -> Interval:
    """Return Fieller's interval of the cost per further resolved cell, over instances."""
    import numpy as np
    from scipy.special import stdtrit

    instances = len(sums.planned)
    if instances < 2:
        return Interval(-inf, inf)
    pair = sums.of([first, second])
    # The contribution of each instance to a ratio of sums, to first order.
    cost = (pair.cost - pair.costs * pair.priced) / pair.priced.mean(axis=0)
    rate = (pair.resolved - pair.rates * pair.planned) / pair.planned.mean(axis=0)
    of_cost, of_rate = cost[:, 1] - cost[:, 0], rate[:, 1] - rate[:, 0]
    (variance, joint), (_, other) = np.cov([of_cost, of_rate]) / instances
    quantile = float(stdtrit(instances - 1, 0.975))
    means = float(pair.costs[1] - pair.costs[0]), float(pair.rates[1] - pair.rates[0])
    return fieller_interval(
        means, (float(variance), float(other), float(joint)), (-quantile, quantile)
    )


def _resample(sums: _Sums, bootstrap: Bootstrap) -> tuple[Numbers, Numbers]:
    """Return rates and mean costs of each resample: resamples × arms."""
    import numpy as np

    drawn = bootstrap.sums(np.hstack([sums.planned, sums.resolved, sums.priced, sums.cost]))
    planned, resolved, priced, cost = np.split(drawn, 4, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return resolved / planned, cost / priced


def _net_benefits(
    value: float | None,
    sums: _Sums,
    drawn: tuple[Numbers, Numbers] | None,
    bootstrap: Bootstrap,
) -> Sequence[Estimate | None]:
    """Return the mean net benefit per cell of each arm."""
    import numpy as np

    arms, instances = sums.planned.shape[1], len(sums.planned)
    if value is None:
        return [None] * arms
    means = net_benefit(value, sums.rates, sums.costs)
    if drawn is None:
        return [Estimate(float(mean), Interval(-inf, inf), instances, 0) for mean in means]
    resampled = net_benefit(value, *drawn)
    return [
        Estimate(
            float(means[i]),
            bootstrap.interval(resampled[:, i], instances),
            instances,
            int(np.count_nonzero(np.isnan(resampled[:, i]))),
        )
        for i in range(arms)
    ]


def _compute_acceptability(
    names: Sequence[str],
    sums: _Sums,
    drawn: tuple[Numbers, Numbers],
    values: Sequence[float],
) -> Acceptability | None:
    if not values:
        return None
    shares = acceptability(values, *drawn).T.tolist()
    best = select_preferred(values, sums.rates.tolist(), sums.costs.tolist())
    return Acceptability(
        values=tuple(values),
        shares={name: tuple(share) for name, share in zip(names, shares, strict=True)},
        frontier=tuple(names[i] for i in best),
    )


def _list_values(arms: Sequence[ArmWorth], declared: float | None) -> list[float]:
    """Return values of a resolved instance around all amounts at which the best arm may change.

    They are evenly spaced on a logarithmic axis, with round numbers and the declared value among
    them. Without any amount, for example if no arm resolves anything, the list is empty.
    """
    amounts = [arm.increment.usd for arm in arms if arm.increment]
    amounts += [arm.cost_usd / arm.rate for arm in arms if arm.standing == "efficient" and arm.rate]
    amounts += [] if declared is None else [declared]
    if not amounts:
        return []
    low, high = log10(min(amounts) / BEYOND), log10(max(amounts) * BEYOND)
    steps = max(1, round((high - low) * POINTS_PER_DECADE))
    spaced = [10 ** (low + (high - low) * step / steps) for step in range(steps + 1)]
    return sorted({*spaced, *round_values(spaced[0], spaced[-1]), *filter(None, [declared])})
