"""The report of an experiment, built and written next to the data, and steps for display."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from flows.storage.lake import Lake, Row
from flows.storage.whole_files import remove, write_whole
from reports.steps import StepView, of_row

if TYPE_CHECKING:
    from upath import UPath

    from reports.questions.history.analysis import History
    from reports.questions.trajectories.pages import InsightOf
    from reports.rendering.sections import ReportDocument
    from reports.types import Report


def read(
    lake: Lake,
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    alone: bool = False,
    cutoffs: Mapping[str, date] | None = None,
) -> "Report":
    """Return the report of an experiment as data, with `alone` of two arms only.

    `cutoffs` are the last days of training data by model.

    Raises:
        ReportError: there is nothing to report on, or the arm does not exist.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.build import build  # DuckDB is slow to import, and most commands do not need it

    with lake.reading():
        return build(lake.root, experiment, baseline, candidate, alone=alone, cutoffs=cutoffs)


def read_several(
    lake: Lake,
    experiments: Sequence[str],
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    cutoffs: Mapping[str, date] | None = None,
) -> "Report":
    """Return the report of several experiments on the instances that all of them plan.

    `cutoffs` are the last days of training data by model.

    Raises:
        ReportError: they have no common instance or dataset, or the arm does not exist.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.build import build
    from reports.combining import combine, get_combined_name

    name = get_combined_name(experiments)
    with TemporaryDirectory(prefix="durabench-report-") as temporary, lake.reading():
        folder = Path(temporary)
        note = combine(lake.root, experiments, folder)
        report = build(folder, name, baseline, candidate, cutoffs=cutoffs)
    return replace(report, notes=(note, *report.notes))


def is_repeated(lake: Lake, experiment: str) -> bool:
    """Return True if an experiment has several dated runs.

    Raises:
        ReportError: there is no lake.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.questions.history.analysis import run_names

    with lake.reading():
        return len(run_names(lake.root, experiment)) > 1


def read_history(lake: Lake, experiment: str) -> "History":
    """Return the dated runs of an experiment.

    Raises:
        ReportError: there is no such experiment.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.questions.history.analysis import read_history

    with lake.reading():
        return read_history(lake.root, experiment)


def write_history(lake: Lake, document: "ReportDocument") -> str:
    """Write a history as page and Markdown into the lake. Return the Markdown.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.rendering import markdown, page

    text = markdown.render(document)
    path = history_path(lake, document.title)
    write_whole(path.with_suffix(".md"), text.encode(errors="backslashreplace"))
    write_whole(path, page.render(document).encode(errors="backslashreplace"))
    return text


def write(
    lake: Lake,
    built: "Report",
    compared: tuple[str, str] | None = None,
    insight_of: "InsightOf" = lambda attempt_id: None,
) -> str:
    """Write a report's pages and its Markdown into the lake. Return the Markdown.

    `insight_of` returns additional content for the pages of trajectories. The report of two
    `compared` arms has a separate folder. The page is written after the trajectories that it links
    to. Trajectories of an earlier report are removed.

    Raises:
        InfrastructureError: a disk or object-store operation failed; the earlier report remains.
    """
    from reports.lake import matching
    from reports.questions.trajectories.pages import render_trajectories
    from reports.rendering import markdown, page
    from reports.wording import TRAJECTORIES

    text = markdown.render(built)
    path = page_path(lake, built.source.experiment, compared)
    linked = set()
    with lake.reading():
        for address, content in render_trajectories(lake.root, built, insight_of):
            linked.add(path.parent / address)
            write_whole(path.parent / address, content.encode(errors="backslashreplace"))
        before = matching(path.with_name(TRAJECTORIES), "*.html")
    write_whole(path.with_name("report.md"), text.encode(errors="backslashreplace"))
    write_whole(path, page.render(built).encode(errors="backslashreplace"))
    for path_before in before:
        if path_before not in linked:
            remove(path_before)
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


def history_path(lake: Lake, series: str) -> "Path | UPath":
    """Return the location of the history of a series."""
    return lake.root / "reports" / series / "history.html"


def read_attempt_steps(lake: Lake, attempt_id: str) -> Iterator[StepView]:
    """Yield the steps of an attempt for display, in the order in which they started."""

    def sort_key(row: Row) -> tuple[datetime, str, int]:
        started_at = row["started_at"] or datetime.min.replace(tzinfo=UTC)  # imports have no times
        return started_at, row["scope"], row["seq"]

    calls = {(call["scope"], call["seq"]): call for call in lake.find("llm_calls", attempt_id)}
    for row in sorted(lake.find("steps", attempt_id), key=sort_key):
        yield of_row(row, calls.get((row["scope"], row["seq"])))
