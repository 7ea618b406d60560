"""The gateway of programs: a call of 100 kB, a restart after 50 calls, and 32 programs at once.

A program is a separate process. It reaches the gateway through the relay of containers, and a
local model server directly for comparison. Each measurement is a process, whose memory is its own.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent import gateway, models
from agent.gateway.app import SOCKET, app, make_token, serve, socket_folder
from agent.gateway.calls import Calls
from agent.gateway.switch import Switch
from agent.journal import Attempt, Journal
from tests.agent.arms.conftest import TASK, make_repository
from tests.agent.attempts import open_session
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.bench.timing import Bound
from tests.servers import openai_server
from tests.servers.postgres import free_port

CLIENT = Path(__file__).with_name("gateway_client.py")
RELAY = Path(gateway.__file__).with_name("relay.pl")

CALLS, REPEATED = 100, 50
PROGRAMS, CALLS_AT_ONCE = 32, 20
SIZE, SMALL = 100_000, 10_000
"""Sizes of a request in bytes."""

MEDIAN_MS, P95_MS, RESTART_S, MEGABYTES = 10.0, 40.0, 1.0, 300.0


@dataclass(frozen=True)
class Gateway:
    """The gateway of one attempt."""

    calls: Calls
    port: int
    """The port of its relay, or its own."""
    key: str


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure each figure in a separate process. `pairs` is ignored, since calls are many."""
    beyond, restarted, at_once = (_apart(part, folder) for part in PARTS)
    calls = f"{CALLS} calls of {SIZE // 1000} kB"
    recorded = f"{REPEATED} calls, none sent"
    together = f"{CALLS_AT_ONCE} calls each, in {at_once[1]:.1f} s"
    return [
        Bound("a call through the gateway, beyond direct", beyond[0], MEDIAN_MS, "ms", calls),
        Bound("the same, 95th percentile", beyond[1], P95_MS, "ms", calls),
        Bound("calls of a restarted program", restarted[0], RESTART_S, "s", recorded),
        Bound(f"memory with {PROGRAMS} programs at once", at_once[0], MEGABYTES, "MB", together),
    ]


async def _beyond(folder: Path, server: str) -> list[float]:
    """Return the median and 95th percentile of the time that the gateway adds to a call, in ms."""
    journal, model = _opened(folder, server)
    async with _served(journal, folder, model, "a") as one:
        targets = [{"port": urlsplit(server).port, "key": "none"}, _of(one)]
        direct, through = await _ask(targets, CALLS, SIZE)
    added = sorted(1000 * (b - a) for a, b in zip(direct, through, strict=True))
    return [statistics.median(added), added[int(0.95 * len(added))]]


async def _restarted(folder: Path, server: str) -> list[float]:
    """Return the seconds in which a restarted program gets all of its answers again."""
    journal, model = _opened(folder, server)
    async with _served(journal, folder, model, "a") as one:
        await _ask([_of(one)], REPEATED, SMALL)
    async with _served(journal, folder, model, "a") as again:
        [seconds] = await _ask([_of(again)], REPEATED, SMALL)
    records = again.calls.records
    if records.found != REPEATED or records.unused:
        raise RuntimeError(f"{records.found} of {REPEATED} from the record")
    return [sum(seconds)]


async def _at_once(folder: Path, server: str) -> list[float]:
    """Return the memory of the process in MB and the seconds that all programs took together."""
    journal, model = _opened(folder, server)
    async with AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(_served(journal, folder, model, f"a{number}"))
            for number in range(PROGRAMS)
        ]
        begun = time.perf_counter()
        await _ask([_of(one) for one in gateways], CALLS_AT_ONCE, SMALL, at_once=True)
        took = time.perf_counter() - begun
        if any(one.calls.answered != CALLS_AT_ONCE for one in gateways):
            raise RuntimeError(f"calls answered: {[one.calls.answered for one in gateways]}")
    return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, took]


PARTS = {"beyond": _beyond, "restarted": _restarted, "at_once": _at_once}


def _apart(part: str, folder: Path) -> list[float]:
    """Run one part as a process and return its figures."""
    command = [sys.executable, "-m", "tests.bench.gateway", part, str(folder / part)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: list[float] = json.loads(done.stdout)
    print(f"  {part}: {', '.join(f'{figure:.2f}' for figure in figures)}", flush=True)
    return figures


def _opened(folder: Path, server: str) -> tuple[Journal, Any]:
    spec = {"name": "openai/gpt-4o", "api_base": server}
    model = models.build(models.parse(spec), TASK, 0)
    return Journal.open(f"sqlite:///{folder}/journal.sqlite"), model


@asynccontextmanager
async def _served(
    journal: Journal, folder: Path, model: Any, attempt: str
) -> AsyncIterator[Gateway]:
    """Serve the gateway of an attempt behind a relay, as containers reach it."""
    journal.start(Attempt(attempt, "experiment", "arm", "instance", 0, "{}"))
    async with AsyncExitStack() as stack:
        workspaces = HostWorkspaces(make_repository)
        session = await stack.enter_async_context(
            open_session(journal, folder, model, attempt, workspaces=workspaces)
        )
        calls, key = Calls(session.scope("agent")), make_token()
        await calls.begin()
        switch = Switch(calls, {})
        stack.push_async_callback(switch.cancel)
        sockets = stack.enter_context(socket_folder())
        await stack.enter_async_context(serve(app(switch, "bench", key), sockets))
        port = stack.enter_context(_relay(sockets))
        yield Gateway(calls, port, key)


@contextmanager
def _relay(folder: Path) -> Iterator[int]:
    port = free_port()
    relay = subprocess.Popen(["perl", str(RELAY), str(folder / SOCKET), str(port)])
    try:
        yield port
    finally:
        relay.terminate()
        relay.wait()


async def _ask(
    targets: list[dict[str, Any]], calls: int, size: int, *, at_once: bool = False
) -> list[list[float]]:
    """Run the program. Return the seconds of each call by target."""
    given = {"targets": targets, "calls": calls, "size": size, "at_once": at_once}
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # modules of this folder have names of the standard library
        str(CLIENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await client.communicate(json.dumps(given).encode())
    if client.returncode:
        raise RuntimeError(f"the program ended with exit code {client.returncode}")
    seconds: list[list[float]] = json.loads(told)
    return seconds


def _of(one: Gateway) -> dict[str, Any]:
    return {"port": one.port, "key": one.key}


def _measure(part: str, folder: Path) -> None:
    os.environ["OPENAI_API_KEY"] = "none"
    folder.mkdir(parents=True)
    with openai_server.serve_apart(folder, ["true"]) as server:
        print(json.dumps(asyncio.run(PARTS[part](folder, server))))


if __name__ == "__main__":
    _measure(sys.argv[1], Path(sys.argv[2]))
