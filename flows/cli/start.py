"""Commands for beginners: run or write an experiment, see how far it is, check the machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.exits import EXIT_INFRASTRUCTURE
from flows.cli.options import ApiBaseOption, EnvironmentOption, LakeOption, ModelOption

_INSTEAD = "Instead of a file"


def run(
    experiment: Annotated[
        Path | None,
        typer.Argument(
            metavar="EXPERIMENT.yaml", help="experiment file; `durabench init` writes one"
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            *("--dataset", "-d"),
            help="bundled (the default), a Hugging Face id, a file or a task repo",
            rich_help_panel=_INSTEAD,
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            *("--arm", "-a"),
            help="mini, mini_retry, durable, loop, staged, gold, null, a recipe such as "
            "claude-code, or package.module:function; repeatable, the baseline first",
            rich_help_panel=_INSTEAD,
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="number of instances to draw at random; default all", rich_help_panel=_INSTEAD
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="US dollars for the whole experiment", rich_help_panel=_INSTEAD),
    ] = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    environment: EnvironmentOption = None,
    name: Annotated[str | None, typer.Option(help="another name for the results")] = None,
    concurrency: Annotated[int | None, typer.Option(help="cells at the same time")] = None,
    grade: Annotated[bool, typer.Option(help="grade now, or leave it to a later run")] = True,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="reuse no earlier result: append the time to the name"),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Run an experiment. Running it again resumes it: only missing work is done.

    Without a file, --arm, --model, --dataset, --sample and --budget say what to run, and the file
    that they stand for is printed.
    """
    from flows.cli import declarations, running
    from flows.display.errors import UsageError
    from flows.display.terminal import warn
    from flows.experiments import declaration

    options: dict[str, Any] = {
        "model": model,
        "api_base": api_base,
        "environment": environment,
        "name": name,
        "concurrency": concurrency,
    }
    if experiment is None:
        options |= {"agents": arm or (), "dataset": dataset, "sample": sample, "budget_usd": budget}
        content = declarations.declare(**options)
        declared = declaration.parse(content, "command line")
    elif arm or (dataset, sample, budget) != (None, None, None):
        raise UsageError(
            f"--dataset, --arm, --sample and --budget go without a file: change {experiment}"
        )
    else:
        declared = declarations.override(declaration.load(experiment), **options)
    if fresh:
        declared = declared.afresh()
        warn(f"results are filed under {declared.name}; --name {declared.name} continues the run")
    if experiment is None:
        warn(declarations.format_file({**content, "name": declared.name}))
    running.benchmark(declared, lake, grade=grade)


def init(
    path: Annotated[Path, typer.Argument(help="file to write")] = Path("experiment.yaml"),
) -> None:
    """Write an experiment file with comments, ready to run. No file is overwritten."""
    from flows.cli import declarations
    from flows.display.terminal import show

    declarations.write_example(path)
    show(
        f"{path} is written: set its model, put the key into the environment, and type "
        f"`durabench run {path}`"
    )


def demo(lake: LakeOption = None, environment: EnvironmentOption = None) -> None:
    """Run the bundled experiment: mini, durable, gold and null. No key, no download."""
    from flows.cli import declarations, running
    from flows.display.terminal import show
    from flows.experiments import declaration

    declared = declaration.load(declaration.BUILT_IN / "bundled.yaml")
    declared = declarations.override(declared, environment=environment)
    running.benchmark(declared, lake)
    show("      durabench init  # write an experiment file for your own model and arms")


def status(
    name: Annotated[
        str | None,
        typer.Argument(help="experiment, or id of an attempt; all experiments if left out"),
    ] = None,
    cells: Annotated[bool, typer.Option("--cells", help="every cell with its attempt")] = False,
    json: Annotated[bool, typer.Option("--json", help="as JSON, with every cell")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the progress and cost of experiments, including running attempts."""
    from flows.cli import status_text

    status_text.show(name, lake, cells=cells, as_json=json)


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="remove leftovers of dead runs")] = False,
    adopt_journal: Annotated[
        bool,
        typer.Option(
            "--adopt-journal",
            help="bind the lake to the configured journal if its own is lost for good; work that "
            "only the lost one recorded is paid for again",
        ),
    ] = False,
    repo: Annotated[
        Path | None,
        typer.Option("--repo", help="only show the detected commands of the repository here"),
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option("--experiment", help="also ask each model of an experiment file once"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Check the requirements of a run.

    Covers git, Docker, images, lake, journal, Prefect, model keys and leftovers.
    """
    import asyncio

    from flows.experiments import declaration
    from flows.operation import checks, checkup

    if repo is not None:
        checkup.print_all(checks.check_repository(repo))
        return

    if adopt_journal:
        checkup.adopt_journal(lake)
    declared = declaration.load(experiment) if experiment else None
    if not asyncio.run(checkup.check(lake, fix=fix, experiment=declared)):
        raise typer.Exit(EXIT_INFRASTRUCTURE)
