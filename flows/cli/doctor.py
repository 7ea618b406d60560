"""Check the requirements of a run."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.exits import EXIT_INFRASTRUCTURE
from flows.cli.options import LakeOption


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
        typer.Option("--repo", help="only show what is detected in the repository in this folder"),
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
