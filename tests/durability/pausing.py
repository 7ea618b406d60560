"""A worker that suspends itself at a chosen point until it gets SIGCONT."""

import asyncio
import functools
import signal
import time
import traceback
from multiprocessing.connection import Connection

from agent.errors import InfrastructureError, LeaseHeld
from agent.journal import Journal, holding
from flows.cells import attempts
from flows.storage.lake import Lake
from tests.durability import crashing
from tests.durability.crashing import Setting

LEASE_S = 3.0
"""Shorter than the default lease, which would make every test wait for half a minute."""


def work(
    setting: Setting, stop_at: str | None, beats: bool, patience_s: float, ended: Connection
) -> None:
    """Run the attempt. While another worker holds it, retry for `patience_s`.

    Without heartbeats the worker never renews its lease; only its next write shows that the lease
    is lost. Send `done`, or the name of the error that ended the attempt.
    """
    lake = setting.enter()
    crashing.put_around(crashing.Points(stop_at, signal.SIGSTOP), setting.url)
    if not beats:
        Journal.renew = lambda *arguments: None  # type: ignore[method-assign]
    attempts.hold_lease = functools.partial(holding.hold_lease, ttl_s=LEASE_S)
    try:
        asyncio.run(_insist(lake, time.monotonic() + patience_s))
        ended.send("done")
    except (InfrastructureError, LeaseHeld) as error:
        traceback.print_exc()  # helps if the test expected something else
        ended.send(type(error).__name__)


async def _insist(lake: Lake, until: float) -> None:
    while True:
        try:
            return await crashing.attempt(crashing.cell("host"), lake)
        except LeaseHeld:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(0.1)
