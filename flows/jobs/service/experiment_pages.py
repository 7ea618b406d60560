"""The pages of experiments: their progress while they run, and their reports."""

import asyncio
import mimetypes
from pathlib import PurePosixPath

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from flows.experiments import status
from flows.jobs.service.problems import not_found
from flows.jobs.service.rendering import page
from flows.jobs.service.services import Used
from flows.storage.job_names import job_of
from flows.storage.lake import Lake
from flows.storage.report_files import page_path

router = APIRouter(include_in_schema=False)

EXPERIMENTS = "/ui/experiments"
MOST_CELLS = 200

_BEGUN = ("running", "interrupted", "killed", "budget_stop", "infrastructure")


@router.get("/ui/experiments")
async def experiments(service: Used) -> HTMLResponse:
    """List the experiments of the lake. Jobs have their own pages."""
    names = await asyncio.to_thread(_names, service.lake)
    return page("experiments", EXPERIMENTS, names=names)


@router.get("/ui/experiments/{name}")
async def experiment(name: str, service: Used) -> HTMLResponse:
    """Show the progress of an experiment."""
    return await asyncio.to_thread(_progress, service.lake, name)


@router.get("/ui/experiments/{name}/report/{path:path}")
async def report(name: str, path: str, service: Used) -> Response:
    """Return a file of an experiment's report."""
    content = await asyncio.to_thread(_file, service.lake, name, path)
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(content, media_type=kind)


def _names(lake: Lake) -> list[str]:
    with lake.reading():
        return [name for name in lake.experiments() if job_of(name) is None]


def _progress(lake: Lake, name: str) -> HTMLResponse:
    if name not in lake.experiments():
        raise not_found(f"experiment {name!r}")
    reading = status.read(lake, [name])
    [found] = reading.experiments
    with lake.reading():
        has_report = page_path(lake, name).exists()
    cells = [cell for cell in found.cells if cell.state in _BEGUN]
    return page(
        "experiment",
        EXPERIMENTS,
        experiment=found,
        notes=reading.notes,
        has_report=has_report,
        cells=cells[:MOST_CELLS],
        is_live=found.total.states["done"] < found.total.planned,
    )


def _file(lake: Lake, name: str, path: str) -> bytes:
    parts = PurePosixPath(path).parts
    if name not in lake.experiments() or not parts or ".." in parts or parts[0] == "/":
        raise not_found("such report")
    file = page_path(lake, name).parent.joinpath(*parts)
    with lake.reading():
        if not file.is_file():
            raise not_found("such page of the report")
        return file.read_bytes()
