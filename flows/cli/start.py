"""Commands for beginners: run an experiment, see how far it is, check the machine."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.exits import EXIT_INFRASTRUCTURE
from flows.cli.options import ApiBaseOption, EnvironmentOption, LakeOption, ModelOption


def run(
    experiment: Annotated[Path, typer.Argument(help="experiment file in YAML")],
    lake: LakeOption = None,
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
) -> None:
    """Run an experiment. Running it again resumes it: only missing work is done."""
    from flows.cli import running
    from flows.display.terminal import warn
    from flows.experiments import declaration as experiments

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
        warn(f"results are filed under {declared.name}")
    running.benchmark(declared, lake, grade=grade)


def demo(lake: LakeOption = None, environment: EnvironmentOption = None) -> None:
    """Run the bundled experiment: mini, durable, gold and null. No key, no download."""
    from flows.cli import running
    from flows.experiments import declaration

    declared = declaration.load(declaration.BUILT_IN / "bundled.yaml")
    declared = running.overridden(declared, environment=environment)
    running.benchmark(declared, lake)


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
    lake: LakeOption = None,
) -> None:
    """Check the requirements of a run.

    Covers git, Docker, images, lake, journal, Prefect, model keys and leftovers.
    """
    import asyncio

    from flows.operation import checks, checkup

    if repo is not None:
        checkup.print_all(checks.check_repository(repo))
        return

    if adopt_journal:
        checkup.adopt_journal(lake)
    if not asyncio.run(checkup.check(lake, fix=fix)):
        raise typer.Exit(EXIT_INFRASTRUCTURE)
