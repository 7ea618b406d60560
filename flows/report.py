"""The flow that writes an experiment's paired report: a page, Markdown and Prefect artifacts."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prefect import flow
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_table_artifact,
)

from flows.experiments.diagnosis import insights
from flows.experiments.gates import check_answers
from flows.server.artifacts import HISTORY, artifact_key
from flows.server.flow_run import end_as_state
from flows.server.retry import patiently
from flows.storage import journals, report_files
from flows.storage.lake import Lake
from reports.format import plural

if TYPE_CHECKING:
    from reports.types import Report, ReportCell

SERVED = "DURABENCH_REPORTS_URL"
"""Variable with the address under which a web server or an object store serves `reports` of the
lake."""

on_report: ContextVar[Callable[["Report"], None]] = ContextVar(
    "on_report", default=lambda built: None
)
"""Callback for each report that is published; set by code that shows it."""

SHOWN_CELLS = 300
"""Maximum rows in the table of cells; a browser still scrolls this many well."""

_ATTENTION = {"infrastructure": 0, "stopped": 1, "ungraded": 1, "missing": 3}
"""Sort rank of cell states that need attention or are not started. All other states rank 2."""

_DETAIL_CHARACTERS = 200


@flow(name="report", flow_run_name="report {experiment}")
@end_as_state
async def report(
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    lake: str | None = None,
) -> str:
    """Write the report of an experiment, complete or not. Return the location of its page.

    Args:
        experiment: Name of the experiment.
        baseline: Name of the arm to compare with; by default the primary comparison's.
        candidate: Name of the arm whose worth is tested; by default that of the primary
            comparison.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.

    Raises:
        GateFailed: an arm had no answer of its model; the report is written.
        ReportError: there is nothing to report on, or the arm does not exist.
    """
    page, built = await publish(experiment, Lake.existing(lake), baseline, candidate)
    check_answers(built.arms)
    return page


async def publish(
    experiment: str, store: Lake, baseline: str | None = None, candidate: str | None = None
) -> "tuple[str, Report]":
    """Write a report and its artifacts, which belong to the current flow run.

    Return the location of the page, and the report.

    Raises:
        ReportError: there is nothing to report on, or the arm does not exist.
    """
    built = await asyncio.to_thread(report_files.read, store, experiment, baseline, candidate)
    on_report.get()(built)
    markdown = await asyncio.to_thread(
        lambda: report_files.write(store, built, insight_of=insights(store))
    )
    lake_id = await asyncio.to_thread(journals.lake_id, store)
    page = str(report_files.page_path(store, experiment))
    planned = sum(arm.planned for arm in built.arms)
    rows = min(planned, SHOWN_CELLS)
    await patiently(
        acreate_markdown_artifact,
        markdown=markdown,
        key=artifact_key("report", experiment, lake_id),
        description=f"{experiment}; page: {page}",
    )
    await patiently(
        acreate_table_artifact,
        table=[_row(cell) for cell in most_telling(built.cells)],
        key=artifact_key("cells", experiment, lake_id),
        description=f"{experiment}: {rows} of {plural(planned, 'cell')}, what needs attention "
        "first",
    )
    await _publish_history(store, experiment, lake_id)
    if link := page_url(experiment):
        await patiently(
            acreate_link_artifact,
            link=link,
            link_text=f"Report of {experiment}",
            key=artifact_key("page", experiment, lake_id),
            description=experiment,
        )
    return page, built


def page_url(experiment: str) -> str | None:
    """Return the address of an experiment's page for browsers; None if nothing serves the pages.

    From a page of Prefect, browsers follow no link to a file.
    """
    served = os.environ.get(SERVED)
    return f"{served.rstrip('/')}/{quote(experiment)}/index.html" if served else None


async def _publish_history(lake: Lake, experiment: str, lake_id: str) -> None:
    """Write the history of an experiment with several dated runs, and publish it."""
    if not await asyncio.to_thread(report_files.is_repeated, lake, experiment):
        return
    from reports.questions.history.section import describe_history

    history = await asyncio.to_thread(report_files.read_history, lake, experiment)
    if len(history.runs) > 1:
        await patiently(
            acreate_markdown_artifact,
            markdown=await asyncio.to_thread(
                report_files.write_history, lake, describe_history(history)
            ),
            key=artifact_key(HISTORY, history.name, lake_id),
            description=f"{plural(len(history.runs), 'run')} of {history.name}",
        )


def most_telling(cells: "Iterable[ReportCell]") -> "list[ReportCell]":
    """Return the cells of the table: broken ones first, then suspect ones, then the most expensive.

    Cells without any work come last. Return at most SHOWN_CELLS.
    """

    def order(cell: "ReportCell") -> tuple[int, bool, float]:
        return _ATTENTION.get(cell.state, 2), not cell.is_suspect, -(cell.cost_usd or 0.0)

    return sorted(cells, key=order)[:SHOWN_CELLS]


def _row(cell: "ReportCell") -> dict[str, Any]:
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
