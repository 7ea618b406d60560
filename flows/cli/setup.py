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
        typer.Option(help="write the server's settings to this file instead of the terminal"),
    ] = None,
) -> None:
    """Prepare a Prefect server: work pool, limit on cells, automations. Idempotent.

    With --env-file, write the server's settings to a file. A server reads them when it starts, so
    this also works before there is a server.
    """
    from flows.server import settings, setup

    if env_file:
        setup.write_settings(env_file)
        typer.echo(f"settings for the server's environment: {env_file}")
        if not setup.has_server():
            return
    for line in asyncio.run(setup.set_up(setup.SetupRequest(cells, notify))):
        typer.echo(line)
    if not env_file:
        typer.echo("\n".join(settings.as_lines()))
