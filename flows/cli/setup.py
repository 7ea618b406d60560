"""Prepare a Prefect server."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer


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
