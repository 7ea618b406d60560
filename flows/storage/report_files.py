"""Building an experiment's report and writing it beside the data, without Prefect."""

from pathlib import Path
from typing import TYPE_CHECKING

from flows.storage.lake import Lake, remove, write_whole

if TYPE_CHECKING:
    from upath import UPath

    from reports.types import Report


def read(
    lake: Lake, experiment: str, baseline: str | None = None, candidate: str | None = None
) -> "Report":
    """The report of an experiment as data.

    Raises:
        ReportError: there is nothing to report on, or no such arm.
        InfrastructureError: the disk or the store refuses.
    """
    from reports.build import build  # DuckDB is slow to import, and most commands need none

    with lake.reading():
        return build(lake.root, experiment, baseline, candidate)


def write(lake: Lake, built: "Report") -> str:
    """Write a report's pages and its Markdown into the lake; the Markdown.

    The page comes after the trajectories that it links to; those of an earlier report go.

    Raises:
        InfrastructureError: the disk or the store refuses; what was there before stays.
    """
    from reports.lake import matching
    from reports.rendering import markdown, page, trajectories  # as is matplotlib

    text = markdown.render(built)
    path = page_path(lake, built.source.experiment)
    folder = path.with_name(trajectories.FOLDER)
    linked = set()
    with lake.reading():
        for name, content in trajectories.render_trajectories(lake.root, built):
            write_whole(folder / name, content.encode())
            linked.add(name)
        before = matching(folder, "*.html")
    write_whole(path.with_name("report.md"), text.encode())
    write_whole(path, page.render(built).encode())
    for left in before:
        if left.name not in linked:
            remove(left)
    return text


def page_path(lake: Lake, experiment: str) -> "Path | UPath":
    """Where an experiment's page is; `report.md` and the trajectories are beside it."""
    return lake.root / "reports" / experiment / "index.html"
