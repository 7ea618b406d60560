"""Building an experiment's report and writing it beside the data, without Prefect."""

from pathlib import Path
from typing import TYPE_CHECKING

from flows.lake import Lake, whole

if TYPE_CHECKING:
    from reports.types import Report


def read(
    lake: Lake, experiment: str, baseline: str | None = None, candidate: str | None = None
) -> "Report":
    """The report of an experiment as data.

    Raises:
        ReportError: there is nothing to report on, or no such arm.
    """
    from reports.build import build  # DuckDB is slow to import, and most commands need none

    return build(lake.root, experiment, baseline, candidate)


def write(lake: Lake, built: "Report") -> str:
    """Write a report's pages and its Markdown into the lake; the Markdown.

    The page comes after the trajectories that it links to; those of an earlier report go.

    Raises:
        InfrastructureError: the disk refuses; what was there before stays.
    """
    from reports import markdown, page, trajectories  # as is matplotlib

    text = markdown.render(built)
    path = page_path(lake, built.source.experiment)
    folder = path.with_name(trajectories.FOLDER)
    linked = set()
    for name, content in trajectories.render_trajectories(lake.root, built):
        _replace(folder / name, content)
        linked.add(name)
    _replace(path.with_name("report.md"), text)
    _replace(path, page.render(built))
    for left in {file.name for file in folder.glob("*.html")} - linked:
        (folder / left).unlink(missing_ok=True)
    return text


def page_path(lake: Lake, experiment: str) -> Path:
    """Where an experiment's page is; `report.md` and the trajectories are beside it."""
    return lake.root / "reports" / experiment / "index.html"


def _replace(path: Path, content: str) -> None:
    with whole(path) as temporary:
        temporary.write_text(content)
