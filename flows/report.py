"""The flow that writes an experiment's paired report: a page, Markdown and Prefect artifacts."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_table_artifact,
)
from prefect.settings import PREFECT_API_URL

from flows.server.progress import artifact_key
from flows.server.settings import is_local
from flows.storage import report_files
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from reports.types import Cell, Report

SHOWN_CELLS = 300
"""Maximum rows in the table of cells; a browser still scrolls this many well."""

_ATTENTION = {"infrastructure": 0, "stopped": 1, "ungraded": 1, "missing": 3}
"""Sort rank of cell states that need attention or are not started. All other states rank 2."""

_DETAIL_CHARACTERS = 200


@flow(name="report", flow_run_name="report {experiment}")
async def report(
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    lake: str | None = None,
) -> str:
    """Write the report of an experiment, complete or not. Return the location of its page.

    Args:
        experiment: Name of the experiment.
        baseline: Name of the arm to compare with; by default that of the primary comparison.
        candidate: Name of the arm whose worth is tested; by default that of the primary
            comparison.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.

    Raises:
        ReportError: there is nothing to report on, or the arm does not exist.
    """
    store = Lake.existing(lake)
    built = await asyncio.to_thread(report_files.read, store, experiment, baseline, candidate)
    markdown = await asyncio.to_thread(report_files.write, store, built)
    await acreate_markdown_artifact(
        markdown=markdown, key=artifact_key("report", experiment), description=experiment
    )
    await acreate_table_artifact(
        table=[_row(cell) for cell in most_telling(built.cells)],
        key=artifact_key("cells", experiment),
        description=_title(built),
    )
    await _publish_history(store, experiment)
    page = report_files.page_path(store, experiment)
    if isinstance(page, Path) and is_local(PREFECT_API_URL.value()):
        await acreate_link_artifact(
            link=page.absolute().as_uri(),
            link_text=f"Report of {experiment}",
            key=artifact_key("page", experiment),
            description="On the machine that wrote it",
        )
    return str(page)


async def _publish_history(lake: Lake, experiment: str) -> None:
    """Write the history of an experiment with several dated runs, and publish it."""
    history = await asyncio.to_thread(report_files.read_history, lake, experiment)
    if len(history.runs) > 1:
        await acreate_markdown_artifact(
            markdown=await asyncio.to_thread(report_files.write_history, lake, history),
            key=artifact_key("history", history.name),
            description=f"{len(history.runs)} runs of {history.name}",
        )


def most_telling(cells: "Iterable[Cell]") -> "list[Cell]":
    """Return the cells of the table: broken ones first, then suspect ones, then the most expensive.

    Cells without any work come last. Return at most SHOWN_CELLS.
    """

    def order(cell: "Cell") -> tuple[int, bool, float]:
        return _ATTENTION.get(cell.state, 2), not cell.is_suspect, -(cell.cost_usd or 0.0)

    return sorted(cells, key=order)[:SHOWN_CELLS]


def _title(built: "Report") -> str:
    shown, planned = min(len(built.cells), SHOWN_CELLS), len(built.cells)
    return f"{built.source.experiment}: {shown} of {planned} cells, what needs attention first"


def _row(cell: "Cell") -> dict[str, Any]:
    detail = cell.reason or cell.detail or ""
    return {
        "arm": cell.arm,
        "instance": cell.instance_id,
        "repeat": cell.repeat,
        "state": f"{cell.state}, in doubt" if cell.is_suspect else cell.state,
        "outcome": cell.outcome or "",
        "cost_usd": None if cell.cost_usd is None else round(cell.cost_usd, 4),
        "calls": cell.model_calls,
        "attempt": (cell.attempt_id or "")[:12],
        "detail": detail[:_DETAIL_CHARACTERS],
    }
