"""A report as one self-contained HTML page: nothing is fetched, nothing runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports import format as formats
from reports.figures import colour_index, draw_figures
from reports.headline import headline
from reports.leading import adjusted_p, describe
from reports.markdown import cost_per_resolved, span
from reports.plans import in_words
from reports.types import STATES, Cell, Report, State

TEMPLATES = Path(__file__).parent / "templates"

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
"""A sign for every state, so that none is told by colour alone."""

TRACES = (
    ("resolved, rate", "marts/cells.sql → marts/arm_states.sql", "evaluations.resolved"),
    ("planned", "marts/planned_cells.sql", "experiments.instance_ids × experiments.repeats"),
    ("state of a cell", "marts/cells.sql", "attempts.outcome, predictions.model_patch, "
     "evaluations.outcome"),
    ("95 % interval of a rate", "statistics.wilson_interval", "resolved and planned"),
    ("cost", "marts/arms.sql", "attempts.cost_usd, attempts.unpriced_calls"),
    ("tokens, calls, time", "marts/arms.sql", "attempts.*_tokens, model_calls, duration_s"),
    ("paired table", "marts/pairs.sql", "marts.cells of both arms by instance and repeat"),
    ("exact McNemar p", "statistics.mcnemar_exact", "only baseline, only candidate"),
    ("mid-p McNemar p", "statistics.mcnemar_mid_p", "only baseline, only candidate"),
    ("declared comparisons", "marts/plans.sql → plans.read_plans", "experiments.primary_*, "
     "experiments.family, experiments.declared_at, attempts.started_at, evaluations.started_at"),
    ("Holm p", "statistics.holm", "exact McNemar p of the declared comparisons"),
    ("not worse by the margin", "statistics.is_non_inferior", "95 % interval of the difference, "
     "experiments.primary_margin"),
    ("difference by Newcombe", "statistics.newcombe_interval", "paired table"),
    ("what is resampled", "resampled.read_resampled", "marts.cells of both arms by instance and "
     "repeat"),
    ("complete pairs", "statistics.complete_pairs", "marts.cells with a verdict in both arms"),
    ("repository of an instance", "resampled.read_resampled", "attempts.repo"),
)  # fmt: skip
"""Number, the file of `reports/` that makes it, and what it is made from."""


@dataclass(frozen=True)
class GridRow:
    """One instance and repeat over all arms, in declared order."""

    instance_id: str
    repeat: int
    cells: tuple[Cell, ...]
    differs: bool
    """Whether one arm of the leading comparison resolved it and the other did not."""


def render(report: Report) -> str:
    """The page as HTML text."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            name: getattr(formats, name)
            for name in ("percent", "points", "usd", "p_value", "ratio", "mean", "count")
        },
        plural=formats.plural,
        moment=formats.moment,
        span=span,
        cost_per_resolved=cost_per_resolved,
        adjusted_p=adjusted_p,
        in_words=in_words,
    )
    return environment.get_template("page.html.j2").render(
        report=report,
        headline=headline(report),
        leading=describe(report),
        figures=draw_figures(report),
        grid=_grid(report),
        colours={arm.name: colour_index(i) for i, arm in enumerate(report.arms)},
        states=STATES,
        marks=MARKS,
        traces=TRACES,
    )


def _grid(report: Report) -> list[GridRow]:
    rows: defaultdict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in report.cells:
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
    ]
