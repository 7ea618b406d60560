"""Write the paired report."""

import os
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import LakeOption

if TYPE_CHECKING:
    from flows.storage.lake import Lake
    from reports.questions.trajectories.pages import InsightOf
    from reports.steps import Insight


def report(
    names: Annotated[
        list[str], typer.Argument(help="experiment; several are compared on common instances")
    ],
    baseline: Annotated[str | None, typer.Option(help="arm to compare with")] = None,
    candidate: Annotated[str | None, typer.Option(help="arm to compare")] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="BASELINE CANDIDATE",
            help="write a page of these two arms only, and leave the page of all arms as it is",
        ),
    ] = None,
    cutoff: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=DATE",
            help="last day of a model's training data, such as 2025-03-31: results before and "
            "after it; repeatable",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Write the paired report: on the terminal, as Markdown, and as one HTML page."""
    from flows.display.errors import UsageError

    if compare and (baseline or candidate):
        raise UsageError("--compare names both arms: leave out --baseline and --candidate")
    if compare and len(names) > 1:
        raise UsageError(
            "--compare takes one experiment: choose the pair of several experiments "
            "by --baseline and --candidate"
        )
    first, second = compare or (baseline, candidate)
    cutoffs = dict(_cutoff(text) for text in cutoff or ())
    limit_threads()
    from flows.storage import report_files
    from flows.storage.lake import Lake

    store, is_pair = Lake.existing(lake), compare is not None
    if len(names) == 1:
        built = report_files.read(store, names[0], first, second, alone=is_pair, cutoffs=cutoffs)
    else:
        built = report_files.read_several(store, names, first, second, cutoffs=cutoffs)
    report_files.write(store, built, compare, open_insights(store))
    from flows.cli import console
    from flows.experiments.gates import check_answers

    console.report(store, built, compare)
    check_answers(built.arms)


def limit_threads() -> None:
    """Use one thread for products of small matrices, where threads would wait for each other.

    This has no effect once numpy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _cutoff(text: str) -> tuple[str, date]:
    """Parse a model and a date."""
    from flows.display.errors import UsageError

    model, _, day = text.rpartition("=")
    try:
        last_day = date.fromisoformat(day)
    except ValueError:
        model = ""
    if not model:
        raise UsageError(f"--cutoff {text!r}: write MODEL=YYYY-MM-DD")
    return model, last_day


def open_insights(store: "Lake") -> "InsightOf":
    """Return a reader of the journal, which opens it for the first attempt with steps."""

    @cache
    def load() -> "InsightOf":
        from flows.experiments.diagnosis import insights  # SQLAlchemy takes half a second to import

        return insights(store)

    def of(attempt_id: str) -> "Insight | None":
        return load()(attempt_id)

    return of
