"""The trajectories that a report links to, each as one self-contained page next to the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.analysis.differences import read_sides
from reports.questions.trajectories.graph import MOST, draw
from reports.rendering.page import environment
from reports.steps import Insight, StepView, of_row
from reports.types import FAILURES, Report, ReportCell
from reports.units import has_unit, read_unit
from reports.wording import address_of

if TYPE_CHECKING:
    from upath import UPath

Row = dict[str, Any]

InsightOf = Callable[[str], Insight | None]
"""Returns the journal's findings about an attempt, or None if it has no steps of it."""


@dataclass(frozen=True)
class Fold:
    """Steps of one scope and the scopes inside it, which the page folds together."""

    scope: str
    """Empty for a single step."""
    steps: tuple[tuple[int, StepView], ...]
    """Each with its number on the page."""


def find_trajectories(lake: Path | UPath, report: Report) -> frozenset[str]:
    """Return the attempts that the report names and that have steps in the lake.

    Imports without steps have none, nor has an attempt that ended before its first step.
    """
    if not (lake / "steps").exists():
        return frozenset()
    return frozenset(
        cell.attempt_id
        for cell in _list_referenced_cells(report)
        # An id that could leave the folder has no page.
        if cell.attempt_id
        and re.fullmatch(r"\w[\w.-]*", cell.attempt_id)
        and has_unit(lake, "steps", *_unit(report, cell))
    )


def render_trajectories(
    lake: Path | UPath, report: Report, insight_of: InsightOf = lambda attempt_id: None
) -> Iterator[tuple[str, str]]:
    """Yield address and HTML text of the page of each attempt in `report.trajectories`.

    An address is within the folder of the report.
    """
    template = environment(Path(__file__).parent).get_template("trajectory.html.j2")
    for cell in _list_referenced_cells(report):
        if cell.attempt_id in report.trajectories:
            folds = _fold(_read(lake, report, cell))
            insight = insight_of(cell.attempt_id)
            predictions = _rows(lake, "predictions", report, cell)
            numbers = {step.origin.place: number for fold in folds for number, step in fold.steps}
            yield (
                address_of(cell.attempt_id),
                template.render(
                    cell=cell,
                    failure=FAILURES[cell.failure] if cell.failure else "resolved",
                    report=report,
                    folds=folds,
                    insight=insight,
                    drawing=draw(insight.graph, numbers) if insight else "",
                    left_out=max(0, len(insight.graph) - MOST) if insight else 0,
                    numbers=numbers,
                    patch="".join(row["model_patch"] for row in predictions),
                ),
            )


def _list_referenced_cells(report: Report) -> tuple[ReportCell, ...]:
    """Return the cells whose attempts are named on the page, each once."""
    differences = [difference for side in read_sides(report) for difference in side.shown]
    cells = [cell for pair in differences for cell in (pair.winner, pair.loser)]
    examples = {example.attempt_id for example in report.failures}
    cells += [cell for cell in report.cells if cell.attempt_id in examples]
    return tuple({cell.attempt_id: cell for cell in cells if cell.attempt_id}.values())


def _read(lake: Path | UPath, report: Report, cell: ReportCell) -> tuple[StepView, ...]:
    calls = {(row["scope"], row["seq"]): row for row in _rows(lake, "llm_calls", report, cell)}
    steps = sorted(_rows(lake, "steps", report, cell), key=_when)
    return tuple(of_row(row, calls.get((row["scope"], row["seq"]))) for row in steps)


def _fold(steps: Iterable[StepView]) -> tuple[Fold, ...]:
    """Return the steps by the scopes inside the outermost ones, each at its first step."""
    groups: dict[tuple[str, int], list[StepView]] = {}
    for number, step in enumerate(steps):
        parts = step.origin.scope.split("/")
        key = ("/".join(parts[:2]), 0) if len(parts) > 1 else ("", number)
        groups.setdefault(key, []).append(step)
    numbers = count(1)
    return tuple(
        Fold(scope, tuple((next(numbers), step) for step in inside))
        for (scope, _), inside in groups.items()
    )


def _unit(report: Report, cell: ReportCell) -> tuple[str, str, str]:
    return report.source.experiment, cell.arm, str(cell.attempt_id)


def _rows(lake: Path | UPath, table: str, report: Report, cell: ReportCell) -> list[Row]:
    rows = read_unit(lake, table, *_unit(report, cell))
    return [] if rows is None else rows.to_pylist()


def _when(row: Row) -> tuple[datetime, str, int]:
    """Return the sort key that orders steps of parallel branches by start time."""
    return row["started_at"] or datetime.min.replace(tzinfo=UTC), row["scope"], row["seq"]
