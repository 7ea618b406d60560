"""Typed summaries and comparisons, read from the marts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from reports.analysis.differences import SHOWN
from reports.estimates import InstanceLeads, PairedTable, Split
from reports.relations import read_rows
from reports.statistics.families import benjamini_hochberg, holm
from reports.statistics.paired import PairedTest
from reports.statistics.proportions import wilson_interval
from reports.statistics.repeats import split_variance
from reports.types import (
    CONTROLS,
    TOKENS,
    AnalysisPlan,
    ArmSummary,
    Comparison,
    Cost,
    FailureExample,
    Pair,
    ReportCell,
    Role,
    State,
    Tokens,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIRST_CELLS = 5_000
"""Number of cells of a report that are shown one by one, whatever they are like."""

TELLING_CELLS = 300
"""Number of cells that are shown because they need attention."""

_CELLS = """
    with cells as (
        select * from marts.cells where arm in (select unnest($arms))
    ),

    first as (
        select arm, instance_id, repeat
        from cells
        order by instance_position, repeat, position
        limit $first
    ),

    telling as (
        select arm, instance_id, repeat
        from cells
        order by
            state <> 'infrastructure',
            state not in ('stopped', 'ungraded'),
            state = 'missing',
            not is_suspect,
            coalesce(cost_usd, 0) desc,
            instance_position,
            repeat,
            position
        limit $telling
    ),

    differing as (
        select instance_id, repeat
        from cells as baseline
        inner join cells as candidate using (instance_id, repeat)
        where baseline.arm = $pair[1]
            and candidate.arm = $pair[2]
            and (baseline.state = 'resolved') <> (candidate.state = 'resolved')
        qualify row_number() over (
            partition by baseline.state = 'resolved'
            order by baseline.instance_position, repeat
        ) <= $differing
    ),

    chosen as (
        from first
        union from telling
        union (select arm, instance_id, repeat from marts.failure_examples)
        union (
            select arm, instance_id, repeat
            from cells
            where is_suspect
        )
        union (
            select arm, instance_id, repeat
            from cells
            semi join differing using (instance_id, repeat)
            where arm in (select unnest($pair))
        )
    )

    select
        arm,
        instance_id,
        repeat,
        state,
        cells.attempt_id,
        cost_usd,
        is_cost_complete,
        model_calls,
        outcome,
        detail,
        reason,
        is_suspect,
        audit_reasons,
        class as failure
    from cells
    semi join chosen using (arm, instance_id, repeat)
    left join marts.failures using (arm, instance_id, repeat)
    order by cells.instance_position, repeat, cells.position
"""

_PAIRS = """
    from marts.pairs
    left join marts.leads using (baseline, candidate)
    order by baseline_position, candidate_position
"""


_DIFFERENCES = """
    select instance_id, (b.state = 'resolved')::integer - (a.state = 'resolved')::integer as value
    from marts.cells as a
    inner join marts.cells as b using (instance_id, repeat)
    where a.arm = $baseline and b.arm = $candidate
"""

_ROWS_AT_ONCE = 10_000
"""Cells fetched in one batch."""

_REPEATED = tuple(
    ReportCell._fields.index(name)
    for name in ("arm", "instance_id", "state", "outcome", "detail", "reason", "failure")
)
"""Columns of `_CELLS`, which are the fields of a cell, with the same texts in many rows."""


def read_arms(connection: DuckDBPyConnection) -> tuple[ArmSummary, ...]:
    """Read all declared arms, in declared order."""
    counts = {
        (row["arm"], row["state"]): row["cells"]
        for row in read_rows(connection, "from marts.arm_states")
    }
    return tuple(
        _arm(row, {state: counts.get((row["arm"], state), 0) for state in get_args(State)})
        for row in read_rows(connection, "from marts.arms")
    )


def read_comparisons(
    connection: DuckDBPyConnection, first: Pair | None, role: Role, plan: AnalysisPlan
) -> tuple[Comparison, ...]:
    """Read every pair of arms once.

    The pair `first` comes first, in the given direction and with `role`. The plan decides direction
    and role of the others; what it does not declare is the later arm against the earlier.
    """
    rows = {(row["baseline"], row["candidate"]): row for row in read_rows(connection, _PAIRS)}
    others = dict.fromkeys(
        plan.direct(pair)
        for pair, row in rows.items()
        if row["baseline_position"] < row["candidate_position"] and set(pair) != set(first or ())
    )
    comparisons = [_comparison(rows[first], role)] if first in rows else []
    comparisons += [_comparison(rows[pair], plan.role_of(pair)) for pair in others]
    return _adjust(_adjust_over_all(comparisons, _controls(connection)), plan)


def read_split(connection: DuckDBPyConnection, pair: Comparison | None) -> Split | None:
    """Split the variance of the paired difference at a cell.

    Return None without a pair, without repeats, or if no pair of cells differs.
    """
    if pair is None or not pair.has_repeats:
        return None
    arms = {"baseline": pair.baseline, "candidate": pair.candidate}
    rows = read_rows(connection, _DIFFERENCES, arms)
    found = split_variance([row["value"] for row in rows], [row["instance_id"] for row in rows])
    return found if found and found.total else None


def read_examples(
    connection: DuckDBPyConnection, arms: Sequence[str]
) -> tuple[FailureExample, ...]:
    """Read a few examples of each class of failure, of these arms."""
    rows = connection.execute(
        "select class, arm, instance_id, repeat, attempt_id from marts.failure_examples"
    ).fetchall()
    examples = (FailureExample(*row) for row in rows)
    return tuple(each for each in examples if each.arm in arms)


def _controls(connection: DuckDBPyConnection) -> frozenset[str]:
    rows = connection.execute("select arm, agent from staging.experiments").fetchall()
    return frozenset(arm for arm, agent in rows if agent in CONTROLS)


def _adjust_over_all(
    comparisons: Sequence[Comparison], controls: frozenset[str]
) -> list[Comparison]:
    """Add the p-values that are adjusted over all pairs, declared or not, without controls."""
    pairs = [pair for pair in comparisons if controls.isdisjoint((pair.baseline, pair.candidate))]
    values = [pair.p_value for pair in pairs]
    adjusted = {
        (pair.baseline, pair.candidate): limits
        for pair, *limits in zip(pairs, holm(values), benjamini_hochberg(values), strict=True)
    }
    found = []
    for pair in comparisons:
        family, discovery = adjusted.get((pair.baseline, pair.candidate), (None, None))
        found.append(replace(pair, holm_p_value=family, false_discovery_p_value=discovery))
    return found


def _adjust(comparisons: Sequence[Comparison], plan: AnalysisPlan) -> tuple[Comparison, ...]:
    """Add the adjusted p-values to the declared comparisons.

    A declared comparison whose arm was dropped counts with p = 1, because a family does not
    shrink with hindsight.
    """
    found = {frozenset((pair.baseline, pair.candidate)): pair.p_value for pair in comparisons}
    family = [frozenset(pair) for pair in plan.comparisons]
    adjusted = dict(zip(family, holm([found.get(arms, 1.0) for arms in family]), strict=True))
    return tuple(
        replace(pair, adjusted_p_value=adjusted.get(frozenset((pair.baseline, pair.candidate))))
        for pair in comparisons
    )


def read_cells(
    connection: DuckDBPyConnection, arms: Sequence[str], pair: Pair | None
) -> tuple[ReportCell, ...]:
    """Read the planned cells of these arms that may be shown one by one.

    They are the first ones, those at which the leading pair differs, suspect verdicts, the examples
    of failures, and those that need attention first: by instance, repeat and arm in declared order.
    Equal texts are held once.
    """
    cursor = connection.execute(
        _CELLS,
        {
            "arms": list(arms),
            "pair": list(pair or ()),
            "differing": SHOWN,
            "first": FIRST_CELLS,
            "telling": TELLING_CELLS,
        },
    )
    texts: dict[Any, Any] = {}
    reasons = ReportCell._fields.index("audit_reasons")
    cells: list[ReportCell] = []
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
        for place in _REPEATED:
            columns[place] = map(texts.setdefault, columns[place], columns[place])
        columns[reasons] = map(tuple, columns[reasons])
        cells.extend(map(ReportCell._make, zip(*columns, strict=True)))
    return tuple(cells)


def _arm(row: dict[str, Any], states: dict[State, int]) -> ArmSummary:
    return ArmSummary(
        name=row["arm"],
        agent=row["agent"],
        model=row["model"],
        simulated=row["simulated"],
        on_host=row["on_host"],
        planned=row["planned"],
        started=row["started"],
        states=states,
        suspect=row["suspect"],
        unaudited=row["unaudited"],
        interval=wilson_interval(
            states["resolved"] * row["instances"] / row["planned"], row["instances"]
        ),
        tokens=_tokens(row),
        cost=_cost(row),
        cells_with_cost=row["cells_with_cost"],
        cells_with_unpriced_calls=row["cells_with_unpriced_calls"],
        mean_calls=row["mean_calls"],
        cells_with_calls=row["cells_with_calls"],
        mean_duration_s=row["mean_duration_s"],
        cells_tried_again=row["cells_tried_again"],
        superseded_attempts=row["superseded_attempts"],
        superseded_cost_usd=row["superseded_cost_usd"],
        superseded_incomplete=row["superseded_incomplete"],
        derived_from=row["derived_from"],
    )


def _tokens(row: dict[str, Any]) -> Tokens:
    # An arm that never ran used no tokens, which is a known number.
    nothing = None if row["started"] else 0
    sums = {kind: row[f"{kind}_tokens"] for kind in TOKENS}
    return Tokens(
        **{kind: nothing if known is None else known for kind, known in sums.items()},
        unknown_cells=row["started"] - row["cells_with_tokens"],
        lower_bounds=frozenset(
            kind for kind in TOKENS if row[f"cells_with_{kind}"] < row["started"]
        ),
    )


def _cost(row: dict[str, Any]) -> Cost:
    return Cost(
        usd=row["known_cost_usd"],
        incomplete_cells=row["cells_with_incomplete_cost"],
        unpriced_calls=row["unpriced_calls"],
        is_unmetered=row["is_unmetered"],
        unmetered_cells=row["unmetered_cells"],
    )


def _comparison(row: dict[str, Any], role: Role) -> Comparison:
    table = PairedTable(
        both=row["both_resolved"],
        only_baseline=row["only_baseline"],
        only_candidate=row["only_candidate"],
        neither=row["neither"],
    )
    leads = _leads(row["instances"], table.pairs, row["leads"] or {})
    test = PairedTest(table, leads)
    return Comparison(
        baseline=row["baseline"],
        candidate=row["candidate"],
        role=role,
        table=table,
        leads=leads,
        interval=test.interval(),
        p_value=test.p_value(),
        adjusted_p_value=None,
        holm_p_value=None,
        false_discovery_p_value=None,
        priced_pairs=row["priced_pairs"],
        baseline_cost_usd=row["baseline_cost_usd"],
        candidate_cost_usd=row["candidate_cost_usd"],
    )


def _leads(instances: int, pairs: int, differing: Mapping[int, int]) -> InstanceLeads:
    """Return the leads of instances with equally many pairs, of which only some differ."""
    repeats = pairs // instances
    counts = {(repeats, lead): number for lead, number in differing.items()}
    alike = instances - sum(differing.values())
    return InstanceLeads(counts | {(repeats, 0): alike} if alike else counts)
