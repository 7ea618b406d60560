"""A report as one self-contained HTML page, without external resources or scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from reports.analysis import spending
from reports.analysis.differences import read_sides
from reports.analysis.failing import group_failures
from reports.analysis.paired import FIRST_CELLS
from reports.analysis.plans import in_words
from reports.losses import (
    ENDINGS,
    FAILURES,
    PHASES,
    PURPOSES,
)
from reports.rendering import costs
from reports.rendering.answers import answers
from reports.rendering.budgets import budget_section
from reports.rendering.drawing import colour_index
from reports.rendering.drawn import draw_all
from reports.rendering.effort import effort_section
from reports.rendering.instances import instances_section
from reports.rendering.known import count_cells, has_tokens
from reports.rendering.leading import describe
from reports.rendering.markdown import span
from reports.rendering.marks import MARKS
from reports.rendering.models import models_table
from reports.rendering.order import MANY_ARMS, TALL, ranked, ranked_spending
from reports.rendering.pairs import pairs_section
from reports.rendering.resources import resources
from reports.rendering.templates import environment
from reports.rendering.trajectories import FOLDER, file_name
from reports.rendering.worth import worth_section
from reports.types import STATES, Report, ReportCell

if TYPE_CHECKING:
    from jinja2 import Template

GRID_CELLS = FIRST_CELLS
"""Maximum number of cells in the table of every instance. A browser needs seconds for more."""

SUSPECTS = 100
"""Maximum number of suspect verdicts to list with their reasons."""

TRACES = (
    ("resolved, rate", "marts/cells.sql → marts/arm_states.sql", "evaluations.resolved"),
    ("planned", "marts/planned_cells.sql", "experiments.instance_ids × experiments.repeats"),
    ("state of a cell", "marts/cells.sql", "attempts.outcome, predictions.model_patch, "
     "evaluations.outcome"),
    ("suspect", "marts/cells.sql → marts/arms.sql", "evaluations.audited_verdict, "
     "evaluations.audit_reasons"),
    ("class of a failure", "marts/failures.sql", "marts.cells.state, "
     "evaluations.fail_to_pass_failure, evaluations.pass_to_pass_failure, attempts.detail, "
     "llm_calls.finish_reason, llm_calls.output_tokens"),
    ("interaction, Kendall's tau-b", "harnesses.read_grid → statistics.kendall_tau",
     "experiments.declaration, marts.cells"),
    ("ending, phase", "marts/failures.sql", "attempts.outcome, workflow_status, agent_verdict, "
     "reproduced"),
    ("billed and its parts", "marts/paid_attempts.sql → marts/spending.sql", "attempts.billed_usd, "
     "attempts.cost_usd, attempts.unpriced_calls, marts.cells.state"),
    ("a trajectory", "trajectories.render_trajectories", "steps, llm_calls, predictions"),
    ("95 % interval of a rate", "statistics.wilson_interval", "resolved and planned"),
    ("cost", "marts/arms.sql", "attempts.cost_usd, attempts.unpriced_calls"),
    ("shared calls, saved by sharing", "marts/sharing.sql", "attempts.reused_calls, "
     "attempts.reused_usd, experiments.derived_from"),
    ("tokens, calls, time", "marts/arms.sql", "attempts.*_tokens, model_calls, duration_s"),
    ("best arm, arms that may be as good", "best.find_best", "paired tests of the best arm with "
     "each other"),
    ("paired table", "marts/pairs.sql", "marts.cells of both arms by instance and repeat"),
    ("p, interval of a difference", "marts/leads.sql → statistics.PairedTest", "marts.cells of "
     "both arms by instance and repeat"),
    ("declared comparisons", "marts/plans.sql → plans.read_plans", "experiments.primary_*, "
     "experiments.family, experiments.declared_at, attempts.started_at"),
    ("Holm p, declared", "statistics.holm", "p of the declared comparisons"),
    ("Holm p and BH p, all", "statistics.holm, statistics.benjamini_hochberg", "p of all pairs "
     "without controls"),
    ("not worse by the margin", "statistics.is_non_inferior", "95 % interval of the difference, "
     "experiments.primary_margin"),
    ("difference of cost, cost per resolved cell", "statistics.difference_of_amounts, "
     "statistics.cost_per_resolved", "marts.cells with known costs in both arms"),
    ("what is resampled", "resampled.read_resampled", "marts.cells of both arms by instance and "
     "repeat"),
    ("place, cost of a further resolved instance", "marts/arm_instances.sql → "
     "statistics.efficient_frontier, statistics.fieller_interval", "marts.cells of all arms"),
    ("resolved within a limit, total spend", "marts/budget_steps.sql", "marts.cells.cost_usd, "
     "marts.cells.model_calls"),
    ("net benefit, chance to be best", "statistics.net_benefit, statistics.acceptability",
     "marts.arm_instances, experiments.willingness_to_pay"),
    ("instances by resolving arms", "marts/arm_instances.sql → marts/instances.sql", "marts.cells"),
    ("by repository and difficulty", "marts/groups.sql → statistics.wilson_interval",
     "marts.cells, attempts.repo, attempts.difficulty"),
    ("flaky, pass@k, pass^k", "marts/consistency.sql → statistics.pass_at_k, "
     "statistics.pass_all_k", "marts.cells"),
    ("turns, cost by verdict", "marts/spreads.sql", "attempts.model_calls, attempts.cost_usd"),
    ("money by role and phase", "marts/attempt_scopes.sql → marts/call_uses.sql", "llm_calls.role, "
     "llm_calls.scope, llm_calls.cost_usd"),
    ("tools", "marts/tool_uses.sql", "steps.kind, steps.request"),
    ("unknown costs replaced, bounds", "marts/unknown_costs.sql → imputation.compare_unknown, "
     "imputation.read_unknown_costs", "marts.cells that ran"),
    ("complete pairs", "statistics.paired_table", "marts.cells with a verdict in both arms"),
    ("wrong verdicts that turn the test, or the sign", "marts/leads.sql → "
     "statistics.wrong_verdicts_for_another_test, wrong_verdicts_for_another_sign",
     "marts.cells of both arms"),
    ("verdicts that flip", "marts/gradings.sql", "evaluations.resolved, evaluations.gradings, "
     "evaluations.audit_reasons"),
    ("parts of the variance", "noise.read_noise → statistics.split_variance", "marts.cells of both "
     "arms, marts/gradings.sql"),
    ("repository of an instance", "resampled.read_resampled", "attempts.repo"),
)  # fmt: skip
"""Numbers of the report, each with the file of `reports/` that computes it and its source."""


@dataclass(frozen=True)
class GridRow:
    """One instance and repeat over all arms, best first."""

    instance_id: str
    repeat: int
    cells: tuple[ReportCell, ...]
    differs: bool
    """True if exactly one arm of the leading comparison resolved it."""


def render(report: Report) -> str:
    """Return the page as HTML text."""
    leading = describe(report)
    arms = ranked(report)
    grid = [] if len(arms) > MANY_ARMS else _grid(report, [arm.name for arm in arms])
    planned = report.source.instances * report.source.repeats
    suspects = [cell for cell in report.cells if cell.is_suspect]
    shown = {
        "report": report,
        "answers": answers(report, leading),
        "leading": leading,
        "sections": {
            "worth": worth_section(report),
            "budget": budget_section(report),
            "instances": instances_section(report),
            "effort": effort_section(report),
            "pairs": pairs_section(report),
        },
        "models": models_table(report),
        "notes": {
            level: [note for note in report.notes if note.level == level]
            for level in ("warning", "note")
        },
        "sides": read_sides(report),
        "arms": arms,
        "spending": ranked_spending(report),
        "nothing_spent": spending.nothing_spent(report.spending),
        "many_arms": MANY_ARMS,
        "tall": TALL,
        "failures": group_failures(report, [arm.name for arm in arms]),
        "failed": {arm.name: arm.planned - arm.resolved for arm in report.arms},
        "grid": grid,
        "grid_left_out": planned - len(grid),
        "rows": report.strips,
        "rows_left_out": planned - len(report.strips),
        "suspects": suspects[:SUSPECTS],
        "suspects_left_out": max(0, len(suspects) - SUSPECTS),
        "colours": {arm.name: colour_index(i) for i, arm in enumerate(report.arms)},
        "links": _links(report),
        "states": STATES,
        "counted": count_cells(arms),
        "has_tokens": has_tokens(arms),
        "marks": MARKS,
        "failure_names": FAILURES,
        "endings": ENDINGS,
        "phases": PHASES,
        "purposes": PURPOSES,
        "traces": TRACES,
    }
    figures = {f"{section}_figures": each for section, each in draw_all(report).items()}
    return template().render(shown, **figures)


@cache
def template() -> Template:
    """Return the template of the page, which takes a tenth of a second to compile."""
    made = environment()
    made.filters.update(
        span=span,
        resources=resources,
        cost=costs.cost,
        cost_per_cell=costs.cost_per_cell,
        cost_per_resolved=costs.cost_per_resolved,
        in_words=in_words,
        billed=spending.billed,
        credited=spending.credited,
        part=spending.part,
        share=spending.share,
    )
    return made.get_template("page.html.j2")


def _links(report: Report) -> dict[str, str]:
    """Return the relative link to the trajectory of each attempt."""
    return {attempt: f"{FOLDER}/{file_name(attempt)}" for attempt in report.trajectories}


def _grid(report: Report, arms: Sequence[str]) -> list[GridRow]:
    """Return the rows of up to `GRID_CELLS` cells, in declared order of the instances."""
    by_arm = {arm: place for place, arm in enumerate(arms)}
    return [
        GridRow(*key, tuple(sorted(cells, key=lambda cell: by_arm[cell.arm])), differs)
        for key, cells, differs in _cells_of_instances(report, GRID_CELLS)
    ]


def _cells_of_instances(
    report: Report, most: int
) -> Iterator[tuple[tuple[str, int], list[ReportCell], bool]]:
    """Yield instance and repeat, its cells in all arms, and whether the leading pair differs.

    Stop after `most` cells.
    """
    rows: defaultdict[tuple[str, int], list[ReportCell]] = defaultdict(list)
    for cell in report.cells[:most]:
        rows[cell.instance_id, cell.repeat].append(cell)
    pair = report.comparisons[0] if report.comparisons else None
    arms = (pair.baseline, pair.candidate) if pair else ()
    for key, cells in rows.items():
        if len(cells) == len(report.arms):
            verdicts = {cell.state == "resolved" for cell in cells if cell.arm in arms}
            yield key, cells, len(verdicts) > 1
