"""Commands that plan, grade, export and compare results."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import (
    DatasetOption,
    EnvironmentOption,
    LakeOption,
    ResourcesOption,
    SplitOption,
)
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


def power(
    instances: Annotated[int | None, typer.Option(min=1, help="planned instances")] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="maximum repeats per arm and instance")
    ] = 1,
    discordance: Annotated[
        float | None,
        typer.Option(help="share of pairs that only one arm resolves; default 0.2"),
    ] = None,
    earlier: Annotated[
        str | None, typer.Option("--from", help="experiment to estimate the discordance from")
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            help="difference to detect, such as 0.05; default the smallest detectable one"
        ),
    ] = None,
    chance: Annotated[
        float, typer.Option("--power", help="probability of detecting the difference")
    ] = 0.8,
    correlation: Annotated[
        float | None, typer.Option(help="between repeats of an instance, 0 to 1; default 0.5")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Plan the size of an experiment before it runs.

    Print the instances and repeats that a difference needs, or the smallest difference that they
    can show.
    """
    from flows.experiments import power

    question = power.Question(instances, repeats, difference, chance)
    power.show(question, discordance, earlier, correlation, lake)


def grade(
    predictions: Annotated[Path, typer.Argument(help="all_preds.jsonl or preds.json")],
    name: Annotated[str, typer.Option(help="name for the results")],
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    environment: EnvironmentOption = None,
    timeout_s: Annotated[float, typer.Option(help="seconds per prediction")] = 1800.0,
    concurrency: Annotated[int, typer.Option(help="gradings at the same time")] = 4,
    network: Annotated[
        bool,
        typer.Option("--network", help="give containers network access, as scripts with pip need"),
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="grade twice, and doubt verdicts that differ")
    ] = False,
    keep_gb: Annotated[
        float | None, typer.Option(help="gigabytes of images to keep; default all")
    ] = None,
    resources: ResourcesOption = None,
    lake: LakeOption = None,
) -> None:
    """Grade a predictions file from any agent and report on it, with an audit of every verdict."""
    import asyncio

    from flows.cli import console, running
    from flows.experiments.resources import Resources
    from flows.formats import predictions as predictions_files
    from flows.server.api import has_server, prefect_api
    from flows.storage import report_files
    from flows.storage.lake import Lake

    source = predictions_files.PredictionSource(name, dataset, split)
    limits = Resources.parse(resources)
    how = (environment or "auto", timeout_s, concurrency, network)
    settings = predictions_files.Grading(*how, audit, keep_gb, limits)
    asyncio.run(predictions_files.check(predictions, source, settings, lake))
    store = Lake.existing(lake)
    if has_server():
        with prefect_api():
            from flows.grade import grade as flow

            running.run_flow(
                lambda: flow(predictions, name, dataset, split, *how, lake, audit, keep_gb, limits)
            )
    else:
        from flows.cells.predictions_file import grade_file, grade_without_prefect, show_here

        running.run_here(
            lambda: grade_file(
                predictions, source, settings, lake, grade_without_prefect, show_here
            )
        )
    built = report_files.read(store, name)
    report_files.write(store, built)
    console.report(store, built)
    console.print_suspects(built)


def export(
    name: Annotated[
        str | None,
        typer.Argument(
            help="experiment; with --atif and --inspect also the id of an attempt; with --duckdb "
            "all experiments by default"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder; default exports/NAME, inside a local lake"),
    ] = None,
    repeat: Annotated[int, typer.Option(help="number of the repeat")] = 0,
    trajectories: Annotated[
        bool,
        typer.Option("--trajectories", help="also write the model calls, for `provider: recorded`"),
    ] = False,
    duckdb: Annotated[
        Path | None,
        typer.Option(help="instead, write every relation of the report to this DuckDB file"),
    ] = None,
    atif: Annotated[
        Path | None,
        typer.Option(help="instead, write ATIF trajectories to this folder, or one to this file"),
    ] = None,
    inspect: Annotated[
        Path | None,
        typer.Option(help="instead, write one log of Inspect, .eval or .json, for its viewer"),
    ] = None,
    harbor: Annotated[
        Path | None,
        typer.Option(help="instead, write a job of Harbor to this new folder, for `harbor view`"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Write each arm's all_preds.jsonl in the format of `swebench eval`, or another format."""
    from flows.display.errors import UsageError
    from flows.display.terminal import show
    from flows.formats import exports, swebench
    from flows.storage.lake import Lake
    from reports.format import plural

    if duckdb:
        for relation, rows in exports.relations(name, duckdb, lake):
            show(f"{relation}: {plural(rows, 'row')}")
        show(f"duckdb {duckdb}")
        if not (atif or inspect or harbor):
            return
    if name is None:
        raise UsageError("name an experiment; only --duckdb FILE writes all of them")
    for path in exports.trajectories(name, atif, lake) if atif else ():
        show(f"{path}")
    if inspect:
        samples = exports.inspect_log(name, inspect, lake)
        show(f"{inspect}: {plural(samples, 'sample')}")
    if harbor:
        trials = exports.harbor_job(name, harbor, lake)
        show(f"{harbor}: {plural(trials, 'trial')}")
    if atif or inspect or harbor:
        return

    store = Lake.existing(lake)
    folder = output or exports.find_folder(store, name)
    if trajectories:
        from flows.formats import mini

        for path, count in mini.write_recordings(name, folder, repeat, store):
            show(f"{path}: {plural(count, 'call')}")
    for path, count in swebench.write_predictions(name, folder, repeat, store):
        show(f"{path}: {plural(count, 'prediction')}")
