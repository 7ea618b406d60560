"""Serve the flows without a work pool."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer


def serve_flows(
    limit: Annotated[int, typer.Option(min=2, help="flow runs at the same time")] = 8,
    replace: Annotated[
        bool, typer.Option("--replace", help="take deployments over from their work pool")
    ] = False,
) -> None:
    """Serve all deployments from this process: no work pool, no worker. Ctrl-C ends it.

    Prepares the Prefect server like `durabench setup`, then runs what is scheduled or ordered in
    the UI. Each flow run is a process of its own.
    """
    from flows.server.serving import serve

    with suppress(KeyboardInterrupt):
        asyncio.run(serve(limit, replace=replace))
