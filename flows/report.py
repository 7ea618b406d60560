"""The paired report of an experiment, as a flow: a page, Markdown, and a Prefect artifact."""

import asyncio

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact

from flows import reporting
from flows.lake import Lake
from flows.progress import artifact_key


@flow(name="report", flow_run_name="report {experiment}")
async def report(
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    lake: str | None = None,
) -> str:
    """Write the report of an experiment; the path of its page.

    Raises:
        ReportError: there is nothing to report on, or no such arm.
    """
    store = Lake.existing(lake)
    built = await asyncio.to_thread(reporting.read, store, experiment, baseline, candidate)
    markdown = await asyncio.to_thread(reporting.write, store, built)
    await acreate_markdown_artifact(
        markdown=markdown, key=artifact_key("report", experiment), description=experiment
    )
    return str(reporting.page_path(store, experiment))
