"""The command line: `durabench --help`.

Prefect, LiteLLM, DuckDB and swebench each take a second or more to import, so a command
imports what it needs when it is called, and `--help` answers at once.
"""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from agent.errors import InfrastructureError, Interrupted, InvalidSpec, LeaseHeld
from eval.errors import DatasetError, ImageError, PredictionsError
from flows.errors import IncompleteRun, UsageError
from reports.errors import ReportError

EXIT_GATE, EXIT_USAGE, EXIT_INFRASTRUCTURE = 1, 2, 3

_OPERATOR = (UsageError, DatasetError, PredictionsError, InvalidSpec, ReportError)
_INFRASTRUCTURE = (IncompleteRun, Interrupted, ImageError, InfrastructureError, LeaseHeld)


class OneLineErrors(TyperGroup):
    """Shows what an operator can act on in one line; everything else is a bug and a traceback."""

    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except _OPERATOR as error:
            raise _exit(error, EXIT_USAGE) from error
        except _INFRASTRUCTURE as error:
            raise _exit(error, EXIT_INFRASTRUCTURE) from error
        except KeyboardInterrupt as error:
            stopped = Interrupted("stopped; run the same command again to continue")
            raise _exit(stopped, EXIT_INFRASTRUCTURE) from error


def _exit(error: Exception, code: int) -> typer.Exit:
    typer.echo(f"durabench: {' '.join(str(error).split())}", err=True)
    return typer.Exit(code)


app = typer.Typer(
    cls=OneLineErrors,
    help="Is a more careful coding agent worth its cost? Paired benchmarks over SWE-bench.",
    epilog="Exit codes: 0 done, 1 a stated gate failed, 2 wrong usage, 3 broken infrastructure.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
images_app = typer.Typer(help="Images of the instances.", no_args_is_help=True)
import_app = typer.Typer(help="File results from elsewhere.", no_args_is_help=True)
app.add_typer(images_app, name="images")
app.add_typer(import_app, name="import")

LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        envvar="DURABENCH_LAKE",
        help="folder or s3://bucket/prefix of results; default ./lake",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="LiteLLM model string for every arm that needs a model, as openai/gpt-5"),
]
ApiBaseOption = Annotated[str | None, typer.Option(help="URL of the model's API, with --model")]
EnvironmentOption = Annotated[
    Literal["auto", "docker", "host"] | None,
    typer.Option("--environment", "-e", help="auto is docker where a daemon answers, else host"),
]
DatasetOption = Annotated[
    str,
    typer.Option("--dataset", "-d", help="bundled, a Hugging Face id, a file or a task repo"),
]
SplitOption = Annotated[str, typer.Option(help="split of a dataset or task repo")]
IdsOption = Annotated[list[str] | None, typer.Option("--id", help="instance; may be repeated")]
RegexOption = Annotated[str, typer.Option(help="only instance ids in which this is found")]
SliceOption = Annotated[str, typer.Option("--slice", help="Python slice, as 0:5")]

FullOption = Annotated[
    bool,
    typer.Option("--full", help="below each line, everything that was asked and answered"),
]


@app.command()
def demo(lake: LakeOption = None, environment: EnvironmentOption = None) -> None:
    """Run the bundled experiment: two simulated skills, gold and null. No key, no download."""
    from flows import experiment, running

    declared = experiment.load(experiment.BUILT_IN / "bundled.yaml")
    declared = running.overridden(declared, environment=environment)
    running.benchmark(declared, lake)


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="experiment file, YAML")],
    lake: LakeOption = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    environment: EnvironmentOption = None,
    name: Annotated[str | None, typer.Option(help="another name for the results")] = None,
    concurrency: Annotated[int | None, typer.Option(help="cells at the same time")] = None,
    grade: Annotated[bool, typer.Option(help="grade now, or leave it to a later run")] = True,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="take nothing from before: a name that ends with the time"),
    ] = False,
) -> None:
    """Run an experiment. The same again resumes: only what is missing is done."""
    from flows import experiment as experiments
    from flows import running

    declared = running.overridden(
        experiments.load(experiment),
        model=model,
        api_base=api_base,
        environment=environment,
        name=name,
        concurrency=concurrency,
    )
    if fresh:
        declared = declared.afresh()
        typer.echo(f"the results are named {declared.name}", err=True)
    running.benchmark(declared, lake, grade=grade)


@app.command()
def debug(
    instance: Annotated[str, typer.Argument(help="instance id")],
    arm: Annotated[str, typer.Option("--arm", "-a", help="mini, durable, gold or null")] = "mini",
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    skill: Annotated[float, typer.Option(help="of the simulated model, without --model")] = 1.0,
    environment: EnvironmentOption = None,
    lake: LakeOption = None,
    task_runs: Annotated[
        bool,
        typer.Option("--task-runs", help="every step a task run on the Prefect server, too"),
    ] = False,
    full: FullOption = False,
) -> None:
    """Solve and grade one instance afresh, showing every step in a line."""
    from flows import running

    trace: Literal["off", "steps"] = "steps" if task_runs else "off"
    running.debug(
        instance,
        arm,
        dataset,
        split,
        model,
        api_base,
        skill,
        environment,
        lake,
        trace,
        full=full,
    )


@app.command()
def grade(
    predictions: Annotated[Path, typer.Argument(help="all_preds.jsonl or preds.json")],
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    environment: EnvironmentOption = None,
    timeout_s: Annotated[float, typer.Option(help="seconds per prediction")] = 1800.0,
    concurrency: Annotated[int, typer.Option(help="gradings at the same time")] = 4,
    network: Annotated[
        bool,
        typer.Option("--network", help="containers reach the network, as pip in scripts needs"),
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="grade twice: what differs between the two is in doubt")
    ] = False,
    keep_gb: Annotated[
        float | None, typer.Option(help="gigabytes of images to keep; without it, all of them")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Grade anybody's predictions and report on them, with an audit beside every verdict."""
    from flows import running

    running.grade(
        predictions,
        name,
        dataset,
        split,
        environment,
        timeout_s,
        concurrency,
        network,
        lake,
        audit,
        keep_gb,
    )


@app.command()
def status(
    name: Annotated[
        str | None,
        typer.Argument(help="experiment, or id of an attempt; all experiments if left out"),
    ] = None,
    cells: Annotated[bool, typer.Option("--cells", help="every cell with its attempt")] = False,
    json: Annotated[bool, typer.Option("--json", help="as JSON, with every cell")] = False,
    lake: LakeOption = None,
) -> None:
    """Show how far experiments are and what they have cost, running attempts included."""
    from flows import status_text

    status_text.show(name, lake, cells=cells, as_json=json)


@app.command()
def trace(
    attempt: Annotated[str, typer.Argument(help="attempt id, or its beginning")],
    full: FullOption = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="until the attempt ends")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the steps of an attempt with their cost, a line each, also while it runs."""
    from flows import tracing

    tracing.trace(attempt, lake, full=full, follow=follow)


@app.command()
def fork(
    attempt: Annotated[str, typer.Argument(help="attempt id, or its beginning")],
    at: Annotated[str, typer.Option(help="first step that is not kept, as trace shows it")],
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    options: Annotated[
        Path | None, typer.Option(help="YAML file: options of the arm that change, as `profile`")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Go on from any step of an attempt, with another model or profile; what is before it
    stays paid."""
    from flows import running

    running.fork(attempt, at, model, api_base, options, lake)


@app.command()
def report(
    name: Annotated[str, typer.Argument(help="experiment")],
    baseline: Annotated[str | None, typer.Option(help="arm to compare with")] = None,
    candidate: Annotated[str | None, typer.Option(help="arm to compare")] = None,
    lake: LakeOption = None,
) -> None:
    """The paired report: on the terminal, as Markdown, and as one HTML page."""
    from flows import reporting, showing
    from flows.lake import Lake

    store = Lake.existing(lake)
    built = reporting.read(store, name, baseline, candidate)
    reporting.write(store, built)
    showing.report(store, built)


@app.command()
def power(
    instances: Annotated[int | None, typer.Option(min=1, help="instances of the plan")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="attempts per cell, at most")] = 1,
    discordance: Annotated[
        float | None,
        typer.Option(help="share of pairs that one arm alone resolves; default 0.2"),
    ] = None,
    earlier: Annotated[
        str | None, typer.Option("--from", help="experiment to take the discordance from")
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(help="to find, as 0.05; without it, the smallest that can be found"),
    ] = None,
    chance: Annotated[float, typer.Option("--power", help="chance of finding it")] = 0.8,
    correlation: Annotated[
        float | None, typer.Option(help="of the repeats of an instance, 0 to 1; default 0.5")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Before a run: instances and repeats that a difference needs, or what they can show."""
    from flows import powering

    question = powering.Question(instances, repeats, difference, chance)
    powering.show(question, discordance, earlier, correlation, lake)


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="experiment")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="folder; default exports/NAME, in the lake if that is one"
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(help="which attempt, where cells repeat")] = 0,
    trajectories: Annotated[
        bool, typer.Option("--trajectories", help="the model side too, for `provider: recorded`")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Write each arm's all_preds.jsonl, as `swebench eval` takes it."""
    from flows import exporting

    if trajectories:
        for path, count in exporting.trajectories(name, output, repeat, lake):
            typer.echo(f"{path}: {count} calls")
    for path, count in exporting.predictions(name, output, repeat, lake):
        typer.echo(f"{path}: {count} predictions")


@import_app.command("mini")
def import_mini(
    folder: Annotated[Path, typer.Argument(help="folder with *.traj.json, at any depth")],
    dataset: DatasetOption,
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    arm: Annotated[str, typer.Option(help="name of the arm")] = "mini",
    split: SplitOption = "test",
    lake: LakeOption = None,
) -> None:
    """File mini-swe-agent's trajectories: predictions, calls with tokens and cost, commands."""
    from flows import foreign, showing

    source = foreign.Source(name, dataset, split)
    showing.imported(foreign.import_mini(folder, source, arm, lake), name)


@import_app.command("table")
def import_table(
    file: Annotated[
        Path, typer.Argument(help="a row per arm and instance: .parquet, .csv, .tsv, .json, .jsonl")
    ],
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    instance_column: Annotated[
        str | None, typer.Option(help="instead of instance_id, instance or task_id")
    ] = None,
    arm_column: Annotated[
        str | None, typer.Option(help="instead of arm, model, agent or system")
    ] = None,
    resolved_column: Annotated[
        str | None, typer.Option(help="true, false, 1 or 0; instead of resolved and the like")
    ] = None,
    cost_column: Annotated[
        str | None, typer.Option(help="USD, may be missing; instead of cost_usd and the like")
    ] = None,
    calls_column: Annotated[
        str | None,
        typer.Option(help="model calls, may be missing; instead of api_calls and the like"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """File a table of published results. An instance without a row counts as not resolved.

    The same file again, corrected, takes the place of the earlier one.
    """
    from flows import imported_table, showing

    columns = imported_table.Columns(
        instance_column, arm_column, resolved_column, cost_column, calls_column
    )
    showing.imported_arms(imported_table.import_table(file, name, columns, lake), name)


@import_app.command("swebench")
def import_swebench(
    report: Annotated[
        Path, typer.Argument(help="JSON of a run, or the folder with its report.json files")
    ],
    name: Annotated[str, typer.Option(help="what the results are filed under")],
    predictions: Annotated[
        Path | None, typer.Option(help="all_preds.jsonl or preds.json; a folder may hold it")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="name of the arm, instead of model_name_or_path")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """File a submission that swebench graded, beside those that have the same --name."""
    from flows import imported_submission, showing

    done = imported_submission.import_swebench(report, predictions, name, arm, lake)
    showing.imported_arms([done], name)


@images_app.command("check")
def images_check(
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
) -> None:
    """Which images are missing, and what would bring them. Exit code 1 if any is."""
    from eval.selection import Selection
    from flows import image_commands

    if not image_commands.check(
        dataset, split, Selection(ids=ids or [], regex=regex, slice=slice_)
    ):
        raise typer.Exit(EXIT_GATE)


@images_app.command("build")
def images_build(
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    lake: LakeOption = None,
) -> None:
    """Build the images of a task repo, as far as they are not here."""
    from eval.selection import Selection
    from flows import image_commands

    wanted = Selection(ids=ids or [], regex=regex, slice=slice_)
    image_commands.build(dataset, split, wanted, lake)


@images_app.command("pull")
def images_pull(
    dataset: DatasetOption,
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    lake: LakeOption = None,
) -> None:
    """Pull the images of a dataset, as far as they are not here. A run does it by itself."""
    from eval.selection import Selection
    from flows import image_commands

    wanted = Selection(ids=ids or [], regex=regex, slice=slice_)
    image_commands.pull(dataset, split, wanted, lake)


@images_app.command("prune")
def images_prune(
    keep_gb: Annotated[
        float, typer.Option(min=0, help="gigabytes to keep, most recently needed")
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--remove", help="only list them, or remove them")
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove images that were built or pulled for a lake; never one that is in use, or that
    was here before."""
    from flows import image_commands

    image_commands.prune(keep_gb, lake, dry_run=dry_run)


@images_app.command("preflight")
def images_preflight(
    experiment: Annotated[
        Path | None, typer.Argument(help="experiment file, in place of a dataset")
    ] = None,
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    network: Annotated[
        bool, typer.Option("--network", help="containers reach the network")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="images at the same time")] = 2,
    lake: LakeOption = None,
) -> None:
    """Whether images can be trusted: nothing of the future in git, gold passes, null fails.

    What was checked before is taken from the lake. Exit code 1 if any image fails.
    """
    from flows import experiment as experiments
    from flows import image_commands

    content = {
        "name": "preflight",
        "dataset": dataset,
        "split": split,
        "select": {"ids": ids or [], "regex": regex, "slice": slice_},
        "network": network,
        "arms": [{"name": "gold", "agent": "gold"}],
    }
    declared = (
        experiments.load(experiment) if experiment else experiments.parse(content, "command line")
    )
    if not image_commands.preflight(declared, lake, concurrency):
        raise typer.Exit(EXIT_GATE)


@app.command()
def prune(
    older_than: Annotated[
        str, typer.Option(help="without activity for so long, as 30d or 12h")
    ] = "30d",
    experiment: Annotated[str | None, typer.Option(help="only what is this one's")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="steps, bodies, files, images or artifacts; may be repeated"),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="with --experiment: that one whole, with all rows")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--remove", help="only show what would go, or remove it")
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove what is not needed any more: steps of attempts that ended, bodies, leftover files,
    images, old artifacts. Results and costs stay."""
    from flows import pruning

    pruning.prune(lake, older_than, experiment, only or [], results=results, remove=not dry_run)


@app.command()
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="remove what dead runs left behind")] = False,
    adopt_journal: Annotated[
        bool,
        typer.Option(
            "--adopt-journal",
            help="bind the lake to the journal in use, where its own is gone for good: what only "
            "that one knows is bought again",
        ),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Check what a run needs: git, Docker, images, lake and journal, Prefect, keys, leftovers."""
    from flows import checkup

    if adopt_journal:
        checkup.adopt_journal(lake)
    if not asyncio.run(checkup.show(lake, fix=fix)):
        raise typer.Exit(EXIT_INFRASTRUCTURE)


@app.command()
def setup(
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="cells at the same time over the whole server; first 64"),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(help="notification block that is told of events, as slack-webhook/team"),
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(help="write the server's settings there, not on the screen")
    ] = None,
) -> None:
    """Prepare a Prefect server: work pool, limit on cells, automations. Again: only what
    differs. With --env-file also before there is a server: it reads them when it starts."""
    from flows import server_settings, setting_up

    if env_file:
        setting_up.write_settings(env_file)
        typer.echo(f"settings for the server's environment: {env_file}")
        if not setting_up.has_server():
            return
    for line in asyncio.run(setting_up.set_up(setting_up.Wanted(cells, notify))):
        typer.echo(line)
    if not env_file:
        typer.echo("\n".join(server_settings.as_lines()))
