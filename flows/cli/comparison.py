"""Compare results of any systems."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import LakeOption
from flows.cli.report import limit_threads, open_insights


def compare(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULTS...",
            help="a job of Harbor, an output folder of mini-swe-agent, predictions with the report "
            "of swebench, logs of Inspect, ATIF trajectories, a table, or an experiment of the "
            "lake; NAME=RESULTS gives another name",
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(help="arm to compare every other arm with; default the first of two"),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="largest loss that is still not worse (0.05 = five percentage points)"),
    ] = None,
    by: Annotated[
        Literal["model", "harness"] | None,
        typer.Option(help="one arm per model or per harness, instead of per result"),
    ] = None,
    require: Annotated[
        Literal["better", "not-worse", "no-loss"] | None,
        typer.Option(
            help="exit with 1 unless the second arm is shown to be better, is shown not to be "
            "worse by --margin, or is not shown to be worse"
        ),
    ] = None,
    format_: Annotated[
        Literal["text", "github"],
        typer.Option("--format", help="github prints Markdown for the comment of a pull request"),
    ] = "text",
    junit: Annotated[
        Path | None, typer.Option(help="also write instances and requirement as JUnit XML")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Compare results that you have: of Harbor, Inspect, mini-swe-agent, swebench, or in tables.

    Which is better, how sure is that, at which cost? Nothing has to be declared.

    For example: durabench compare jobs/monday jobs/tuesday
    """
    limit_threads()
    from flows.cli import console
    from flows.display.terminal import out
    from flows.formats import comparison, comparison_files
    from flows.storage import report_files
    from flows.storage.lake import Lake

    built = comparison.compare(results, by=by, baseline=baseline, margin=margin, lake_path=lake)
    store = Lake.open(lake)
    text = report_files.write(store, built, insight_of=open_insights(store))
    page = report_files.page_path(store, built.source.experiment)
    verdict = comparison_files.judge(built, require) if require else None
    if junit:
        comparison_files.write_junit(built, verdict, junit)
    if format_ == "github":
        out().file.write(comparison_files.cut_comment(text, page, verdict))
    else:
        console.report(store, built)
    if verdict is not None:
        verdict.check()
