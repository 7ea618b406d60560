"""A report as one self-contained HTML page, without external resources or scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from reports.analysis import spending
from reports.analysis.differences import read_sides
from reports.analysis.failing import group_failures
from reports.analysis.plans import in_words
from reports.losses import (
    ENDINGS,
    FAILURES,
    PHASES,
    PURPOSES,
)
from reports.rendering import order
from reports.rendering.answers import answers
from reports.rendering.drawing import colour_index
from reports.rendering.figures import draw_cost, draw_resolution, draw_spending
from reports.rendering.leading import adjusted_p, describe
from reports.rendering.markdown import cost_per_resolved, span
from reports.rendering.templates import environment
from reports.rendering.trajectories import FOLDER, file_name
from reports.types import STATES, Cell, Report, State

GRID_CELLS = 5_000
"""Maximum number of cells in the table of every instance. A browser needs seconds for more."""

SUSPECTS = 100
"""Maximum number of suspect verdicts to list with their reasons."""

MARKS: dict[State, str] = {
    "resolved": "●",
    "unresolved": "○",
    "no_patch": "∅",
    "patch_failed": "✕",
    "timeout": "◷",
    "infrastructure": "⚠",
    "stopped": "$",
    "ungraded": "…",
    "missing": "·",
}
"""A symbol for every state, so that no state is marked by colour alone."""

TRACES = (
    ("resolved, rate", "marts/cells.sql → marts/arm_states.sql", "evaluations.resolved"),
    ("planned", "marts/planned_cells.sql", "experiments.instance_ids × experiments.repeats"),
    ("state of a cell", "marts/cells.sql", "attempts.outcome, predictions.model_patch, "
     "evaluations.outcome"),
    ("suspect", "marts/cells.sql → marts/arms.sql", "evaluations.audited_verdict, "
     "evaluations.audit_reasons"),
    ("class of a failure", "marts/failures.sql", "marts.cells.state, "
     "evaluations.fail_to_pass_failure, evaluations.pass_to_pass_failure"),
    ("ending, phase", "marts/failures.sql", "attempts.outcome, workflow_status, agent_verdict, "
     "reproduced"),
    ("billed and its parts", "marts/paid_attempts.sql → marts/spending.sql", "attempts.billed_usd, "
     "attempts.cost_usd, attempts.unpriced_calls, marts.cells.state"),
    ("a trajectory", "trajectories.render_trajectories", "steps, llm_calls, predictions"),
    ("95 % interval of a rate", "statistics.wilson_interval", "resolved and planned"),
    ("cost", "marts/arms.sql", "attempts.cost_usd, attempts.unpriced_calls"),
    ("tokens, calls, time", "marts/arms.sql", "attempts.*_tokens, model_calls, duration_s"),
    ("paired table", "marts/pairs.sql", "marts.cells of both arms by instance and repeat"),
    ("exact and mid-p p-values", "marts/leads.sql → statistics.sign_flip", "marts.cells of both "
     "arms by instance and repeat"),
    ("declared comparisons", "marts/plans.sql → plans.read_plans", "experiments.primary_*, "
     "experiments.family, experiments.declared_at, attempts.started_at"),
    ("Holm p", "statistics.holm", "decisive p of the declared comparisons"),
    ("not worse by the margin", "statistics.is_non_inferior", "95 % interval of the difference, "
     "experiments.primary_margin"),
    ("difference by Newcombe", "statistics.newcombe_interval", "paired table, instances"),
    ("what is resampled", "resampled.read_resampled", "marts.cells of both arms by instance and "
     "repeat"),
    ("complete pairs", "statistics.paired_table", "marts.cells with a verdict in both arms"),
    ("repository of an instance", "resampled.read_resampled", "attempts.repo"),
)  # fmt: skip
"""Numbers of the report, each with the file of `reports/` that computes it and its source."""


@dataclass(frozen=True)
class GridRow:
    """One instance and repeat over all arms, in declared order."""

    instance_id: str
    repeat: int
    cells: tuple[Cell, ...]
    differs: bool
    """True if exactly one arm of the leading comparison resolved it."""


def render(report: Report) -> str:
    """Return the page as HTML text."""
    leading = describe(report)
    made = environment()
    made.filters.update(
        span=span,
        cost_per_resolved=cost_per_resolved,
        adjusted_p=adjusted_p,
        in_words=in_words,
        billed=spending.billed,
        part=spending.part,
        share=spending.share,
    )
    grid = _grid(report)
    suspects = [cell for cell in report.cells if cell.is_suspect]
    return made.get_template("page.html.j2").render(
        report=report,
        answers=answers(report, leading),
        leading=leading,
        resolution_figures=draw_resolution(report),
        cost_figures=draw_cost(report),
        spending_figures=draw_spending(report),
        sides=read_sides(report),
        failures=group_failures(report),
        failed={arm.name: arm.planned - arm.resolved for arm in report.arms},
        order_tables=_order_tables(report),
        grid=grid,
        grid_left_out=report.source.instances * report.source.repeats - len(grid),
        suspects=suspects[:SUSPECTS],
        suspects_left_out=max(0, len(suspects) - SUSPECTS),
        colours={arm.name: colour_index(i) for i, arm in enumerate(report.arms)},
        links=_links(report),
        states=STATES,
        marks=MARKS,
        failure_names=FAILURES,
        endings=ENDINGS,
        phases=PHASES,
        purposes=PURPOSES,
        traces=TRACES,
    )


def _order_tables(report: Report) -> list[tuple[str, Sequence[str], Sequence[Sequence[str]], str]]:
    """Return title, header, rows and note of the tables by order and of budget stops."""
    tables = [
        (
            "Results by order of the arms",
            order.ORDER_HEADER,
            order.order_rows(report.strata),
            order.ORDER_NOTE,
        ),
        (
            "Results without budget stops",
            order.STOPS_HEADER,
            order.stop_rows(report.stops),
            order.STOPS_NOTE,
        ),
    ]
    return [table for table in tables if table[2]]


def _links(report: Report) -> dict[str, str]:
    """Return the relative link to the trajectory of each attempt."""
    return {attempt: f"{FOLDER}/{file_name(attempt)}" for attempt in report.trajectories}


def _grid(report: Report) -> list[GridRow]:
    """Return the rows of up to `GRID_CELLS` cells, in declared order of the instances."""
    rows: defaultdict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in report.cells[:GRID_CELLS]:
        rows[cell.instance_id, cell.repeat].append(cell)
    pair = report.comparisons[0] if report.comparisons else None
    arms = (pair.baseline, pair.candidate) if pair else ()
    return [
        GridRow(
            instance,
            repeat,
            tuple(cells),
            len({cell.state == "resolved" for cell in cells if cell.arm in arms}) > 1,
        )
        for (instance, repeat), cells in rows.items()
        if len(cells) == len(report.arms)
    ]
