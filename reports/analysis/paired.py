"""Typed summaries and comparisons, read from the marts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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

_COPIED = (
    *("agent", "model", "simulated", "on_host", "planned", "started", "suspect", "unaudited"),
    *("cells_with_cost", "cells_with_unpriced_calls", "mean_calls", "cells_with_calls"),
    *(
        "unanswered",
        "unanswered_because",
        "mean_duration_s",
        "cells_tried_again",
        "superseded_attempts",
        "superseded_cost_usd",
    ),
    *("superseded_incomplete", "derived_from"),
)
"""Columns of `marts.arms` that a summary has under the same name."""

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


def read_arms(connection: DuckDBPyConnection) -> dict[str, tuple[ArmSummary, ...]]:
    """Read all declared arms by experiment, in declared order."""
    counts = {
        (row["experiment"], row["arm"], row["state"]): row["cells"]
        for row in read_rows(connection, "from marts.arm_states")
    }
    arms = defaultdict[str, list[ArmSummary]](list)
    for row in read_rows(connection, "from marts.arms"):
        key = row["experiment"], row["arm"]
        states = {state: counts.get((*key, state), 0) for state in get_args(State)}
        resolved_instances = states["resolved"] * row["instances"] / row["planned"]
        # An arm that never ran used no tokens, which is a known number.
        nothing = None if row["started"] else 0
        sums = {kind: row[f"{kind}_tokens"] for kind in TOKENS}
        tokens = Tokens(
            **{kind: nothing if number is None else number for kind, number in sums.items()},
            unknown_cells=row["started"] - row["cells_with_tokens"],
            lower_bounds=frozenset(
                kind for kind in TOKENS if row[f"cells_with_{kind}"] < row["started"]
            ),
        )
        cost = Cost(
            usd=row["known_cost_usd"],
            incomplete_cells=row["cells_with_incomplete_cost"],
            **{name: row[name] for name in ("unpriced_calls", "is_unmetered", "unmetered_cells")},
        )
        arms[row["experiment"]].append(
            ArmSummary(
                name=row["arm"],
                states=states,
                interval=wilson_interval(resolved_instances, row["instances"]),
                tokens=tokens,
                cost=cost,
                **{name: row[name] for name in _COPIED},
            )
        )
    return {experiment: tuple(summaries) for experiment, summaries in arms.items()}


def read_comparisons(
    connection: DuckDBPyConnection,
    first: Pair | None,
    role: Role,
    plan: AnalysisPlan,
    silent: frozenset[str] = frozenset(),
) -> tuple[Comparison, ...]:
    """Read every pair of arms once, without the pairs of `silent` arms, which had no answer.

    The pair `first` comes first, in the given direction and with `role`. The plan decides direction
    and role of the rest. An undeclared pair is the later arm against the earlier.
    """
    rows = {(row["baseline"], row["candidate"]): row for row in read_rows(connection, _PAIRS)}
    rows = {pair: row for pair, row in rows.items() if not silent.intersection(pair)}
    others = dict.fromkeys(
        plan.direct(pair)
        for pair, row in rows.items()
        if row["baseline_position"] < row["candidate_position"] and set(pair) != set(first or ())
    )
    comparisons = [_compare(rows[first], role)] if first in rows else []
    comparisons += [_compare(rows[pair], plan.role_of(pair)) for pair in others]
    return _adjust(comparisons, plan, _read_controls(connection))


def read_split(connection: DuckDBPyConnection, pair: Comparison | None) -> Split | None:
    """Split the variance of the paired difference at a cell.

    Return None without a pair, without repeats, or if no pair of cells differs.
    """
    if pair is None or not pair.has_repeats:
        return None
    arms = {"baseline": pair.baseline, "candidate": pair.candidate}
    rows = read_rows(connection, _DIFFERENCES, arms)
    split = split_variance([row["value"] for row in rows], [row["instance_id"] for row in rows])
    return split if split and split.total else None


def read_examples(
    connection: DuckDBPyConnection, arms: Sequence[str]
) -> tuple[FailureExample, ...]:
    """Read a few examples of each class of failure, of these arms."""
    rows = connection.execute(
        "select class, arm, instance_id, repeat, attempt_id from marts.failure_examples"
    ).fetchall()
    return tuple(example for row in rows if (example := FailureExample(*row)).arm in arms)


def _read_controls(connection: DuckDBPyConnection) -> frozenset[str]:
    rows = connection.execute("select arm, agent from staging.experiments").fetchall()
    return frozenset(arm for arm, agent in rows if agent in CONTROLS)


def _adjust(
    comparisons: Sequence[Comparison], plan: AnalysisPlan, controls: frozenset[str]
) -> tuple[Comparison, ...]:
    """Add the p-values adjusted over the declared pairs, and over all pairs without controls.

    A declared comparison whose arm was dropped counts with p = 1, because a family does not
    shrink with hindsight.
    """
    values = {frozenset((pair.baseline, pair.candidate)): pair.p_value for pair in comparisons}
    family = [frozenset(pair) for pair in plan.comparisons]
    declared = dict(zip(family, holm([values.get(arms, 1.0) for arms in family]), strict=True))
    searched = {arms: value for arms, value in values.items() if controls.isdisjoint(arms)}
    over_all = dict(zip(searched, holm([*searched.values()]), strict=True))
    discoveries = dict(zip(searched, benjamini_hochberg([*searched.values()]), strict=True))
    return tuple(
        replace(
            pair,
            adjusted_p_value=declared.get(arms),
            holm_p_value=over_all.get(arms),
            false_discovery_p_value=discoveries.get(arms),
        )
        for pair, arms in zip(comparisons, values, strict=True)
    )


def read_cells(
    connection: DuckDBPyConnection, arms: Sequence[str], pair: Pair | None
) -> tuple[ReportCell, ...]:
    """Read the planned cells of these arms that may be shown one by one.

    They are the first ones, those at which the leading pair differs, suspect verdicts, the examples
    of failures, and the cells that need attention: by instance, repeat, arm as declared.
    """
    rows = connection.execute(
        _CELLS,
        {
            "arms": list(arms),
            "pair": list(pair or ()),
            "differing": SHOWN,
            "first": FIRST_CELLS,
            "telling": TELLING_CELLS,
        },
    ).fetchall()
    cells = map(ReportCell._make, rows)
    return tuple(cell._replace(audit_reasons=tuple(cell.audit_reasons)) for cell in cells)


def _compare(row: dict[str, Any], role: Role) -> Comparison:
    table = PairedTable(
        *(row[name] for name in ("both_resolved", "only_baseline", "only_candidate", "neither"))
    )
    # Instances have equally many pairs, and the row counts the differing ones.
    repeats, differing = table.pairs // row["instances"], row["leads"] or {}
    counts = {(repeats, lead): number for lead, number in differing.items()}
    if alike := row["instances"] - sum(differing.values()):
        counts[repeats, 0] = alike
    leads = InstanceLeads(counts)
    test = PairedTest(table, leads)
    return Comparison(
        baseline=row["baseline"],
        candidate=row["candidate"],
        role=role,
        table=table,
        leads=leads,
        interval=test.interval(),
        p_value=test.p_value(),
        priced_pairs=row["priced_pairs"],
        baseline_cost_usd=row["baseline_cost_usd"],
        candidate_cost_usd=row["candidate_cost_usd"],
    )
