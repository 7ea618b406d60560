"""Commands of operators: a Prefect server, its flows, and old data."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import LakeOption


def prune(
    older_than: Annotated[
        str, typer.Option(help="minimum time without activity, such as 30d or 12h")
    ] = "30d",
    experiment: Annotated[str | None, typer.Option(help="restrict to this experiment")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="steps, rows, bodies, reports, files, images, mirrors or artifacts; repeatable"
        ),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="with --experiment: remove all of it, rows included")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run/--remove", help="only list removable data, or remove it"),
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove data that is no longer needed. Results and costs are kept.

    Covers the steps of ended attempts, their rows (which are put into few files), unreferenced
    payloads (bodies), old reports, leftover files, images, mirrors of repositories and old
    artifacts.
    """
    from flows.operation import pruning

    pruning.prune(lake, older_than, experiment, only or [], results=results, remove=not dry_run)


def setup(
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="cells at the same time on the whole server; initially 64"),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(help="notification block for events, such as slack-webhook/team"),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(help="write the settings of a server and of workers to this file"),
    ] = None,
) -> None:
    """Prepare a Prefect server: work pool with queues, limit on cells, automations. Idempotent.

    Prints what it changes, and the settings that the server lacks. With --env-file, write all
    settings to a file. A server reads them when it starts, so this also works before there is a
    server.
    """
    from flows.display.terminal import show
    from flows.server import setup

    if env_file:
        setup.write_settings(env_file)
        show(f"settings for the server's environment: {env_file}")
        if not setup.has_server():
            return
    lines = asyncio.run(setup.set_up(setup.SetupRequest(cells, notify)))
    show("\n".join(lines) or "nothing is missing")


def serve_flows(
    limit: Annotated[int, typer.Option(min=2, help="flow runs at the same time")] = 8,
    replace: Annotated[
        bool, typer.Option("--replace", help="take deployments over from their work pool")
    ] = False,
) -> None:
    """Serve all deployments from this process: no work pool, no worker. Ctrl-C ends it.

    Prepares the Prefect server like `durabench setup`, then runs flow runs that are scheduled or
    ordered in the UI, each in a separate process.
    """
    from flows.server.serving import serve

    with suppress(KeyboardInterrupt):
        asyncio.run(serve(limit, replace=replace))
