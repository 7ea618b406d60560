"""Serve jobs over HTTP."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer

from flows.cli.options import LakeOption


def serve(
    host: Annotated[
        str, typer.Option(help="address to bind; with another than loopback, set a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port")] = 8200,
    rate: Annotated[
        int, typer.Option(min=1, help="requests a minute from one address that change something")
    ] = 120,
    lake: LakeOption = None,
) -> None:
    """Serve jobs and pipelines over HTTP, with pages to submit and to follow them. Ctrl-C ends it.

    Prefect's workers do the work: deploy the flows and start a worker, or `durabench serve-flows`.
    """
    from flows.display.terminal import say
    from flows.jobs.service import serving

    say(f"serving http://{host}:{port}; stop with Ctrl-C")
    with suppress(KeyboardInterrupt):
        asyncio.run(serving.serve(host, port, lake, writes_per_minute=rate))
