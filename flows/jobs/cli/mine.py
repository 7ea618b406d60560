"""Tasks from a repository's own history: `durabench mine`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from flows.jobs.mining.mine import Funnel


def mine(
    repo: Annotated[str, typer.Argument(help="path or address of a repository, or owner/name")],
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="DATE", help="only changes merged since"),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="number of tasks to find, from the newest change on")
    ] = 20,
    output: Annotated[
        Path | None, typer.Option(help="folder of the tasks; default NAME-tasks")
    ] = None,
    verify: Annotated[
        str, typer.Option(help="test command that prints each result; auto: the project's own")
    ] = "auto",
    image: Annotated[
        str | None, typer.Option(help="image to work in; default the repository's own, or by kind")
    ] = None,
) -> None:
    """Make a dataset of tasks from the merged changes of a repository that have tests.

    Each task is checked twice in Docker: its tests fail before the change and pass after it.
    The same command again continues.
    """
    from flows.display.errors import GateFailed
    from flows.display.terminal import show
    from flows.jobs.mining.mine import Funnel, MiningRequest, mine

    request = MiningRequest(repo, output, since.date() if since else None, limit, verify, image)
    funnel = Funnel()
    try:
        mine(request, funnel)
    finally:
        if funnel.candidates:
            _show(funnel)
    if not funnel.validated:
        raise GateFailed("no change could be made a task")
    show(f"an experiment runs them with `dataset: {funnel.folder}`")


def _show(funnel: "Funnel") -> None:
    from flows.display.terminal import show, warn

    for warning in funnel.warnings:
        warn(f"warning: {warning}")
    steps = {
        "merged changes seen": funnel.seen,
        "have code and tests": funnel.candidates,
        "tried": funnel.tried,
        "have an image": funnel.built,
        "validated": funnel.validated,
    }
    for name, number in steps.items():
        show(f"{number:>7,}  {name}")
    for reason, number in funnel.dropped.most_common():
        show(f"{number:>7,}  dropped: {reason}")
    if funnel.flaky:
        show(f"{funnel.flaky:>7,}  flaky tests left out")
    spent = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in funnel.seconds.items())
    show(f"time: {spent}")
