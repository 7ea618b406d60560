"""Build an experiment's report and write it beside the data, without Prefect."""

from pathlib import Path
from typing import TYPE_CHECKING

from flows.storage.lake import Lake, remove, write_whole

if TYPE_CHECKING:
    from upath import UPath

    from reports.types import Report


def read(
    lake: Lake,
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    alone: bool = False,
) -> "Report":
    """Return the report of an experiment as data, with `alone` of two arms only.

    Raises:
        ReportError: there is nothing to report on, or the arm does not exist.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.build import build  # DuckDB is slow to import, and most commands do not need it

    with lake.reading():
        return build(lake.root, experiment, baseline, candidate, alone=alone)


def write(lake: Lake, built: "Report", compared: tuple[str, str] | None = None) -> str:
    """Write a report's pages and its Markdown into the lake. Return the Markdown.

    The report of two `compared` arms has a folder of its own beside the page of all arms.

    The page is written after the trajectories that it links to. Trajectories of an earlier report
    are removed.

    Raises:
        InfrastructureError: a disk or object-store operation failed; the earlier report remains.
    """
    from reports.lake import matching
    from reports.rendering import markdown, page, trajectories  # matplotlib is slow to import

    text = markdown.render(built)
    path = page_path(lake, built.source.experiment, compared)
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


def page_path(
    lake: Lake, experiment: str, compared: tuple[str, str] | None = None
) -> "Path | UPath":
    """Return the location of an experiment's page, or of the page of two compared arms.

    Other files of the same report are in the same folder.
    """
    folder = lake.root / "reports" / experiment
    if compared:
        folder = folder.joinpath("compare", *compared)
    return folder / "index.html"
