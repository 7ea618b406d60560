"""The cost of durability: recording a step, and resuming an interrupted run."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agent import models
from agent.arms import ARMS
from agent.arms.options import MiniOptions
from agent.errors import Interrupted
from agent.journal import Attempt, Journal, Limit
from agent.journal.holding import hold_lease
from agent.models import ModelRequest, ScriptedSpec
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Task
from agent.workspaces import Checkpoint, CommandResult, Workspace
from eval import instances
from eval.types import Instance
from flows.experiments.cells import Place
from flows.experiments.workspaces import AttemptWorkspaces
from flows.storage.journals import blobs
from flows.storage.lake import Lake
from tests.bench.timing import Bound
from tests.servers.postgres import PostgresServer

STEPS, REQUEST_BYTES = 400, 4096
"""Number of steps of each kind, and size of each request."""
IN_FLIGHT = 8
ALONE_MS = {"SQLite": 0.8, "PostgreSQL": 1.5}
TOGETHER_MS = {"SQLite": 0.5, "PostgreSQL": None}
"""Promised maxima by database."""

RECORDED_STEPS = 200
RESUME_LIMIT_S = 3.0

ATTEMPT = Attempt("bench", "bench", "mini", "bench__row", 0, "{}")


def step(folder: Path, *, pairs: int) -> list[Bound]:
    """Compare journaled steps with the same steps without a journal.

    As in an attempt, a turn is a model call and a command; a step is half a turn. A single attempt
    makes each step with and without a journal, alternately. Several attempts in flight share the
    processor and the disk, so their figure is the mean over all their steps. Every step is a pair,
    so `pairs` is ignored.
    """
    del pairs
    lake = Lake.open(folder)
    with PostgresServer() as postgres:
        urls = {
            "SQLite": f"sqlite:///{lake.root / 'journal.sqlite'}",
            "PostgreSQL": postgres.create_database(),
        }
        bounds = []
        for name, url in urls.items():
            journal = _journal(lake, url)
            alone = asyncio.run(_alone(journal, lake))
            together = asyncio.run(_together(journal, lake))
            journal.close()
            bounds += [
                Bound(
                    f"a journaled step of {REQUEST_BYTES // 1024} kB on {name}, beyond the call",
                    statistics.median(sum(turn) / 2 for turn in zip(*alone.values(), strict=True)),
                    ALONE_MS[name],
                    "ms",
                    "; ".join(
                        f"{kind}: median {statistics.median(values):.2f}, "
                        f"p90 {statistics.quantiles(values, n=10)[-1]:.2f}"
                        for kind, values in alone.items()
                    ),
                ),
                Bound(
                    f"the same with {IN_FLIGHT} attempts in flight, amortised",
                    together.wall_ms,
                    TOGETHER_MS[name],
                    "ms",
                    f"{together.cpu_ms:.2f} ms of processor time",
                ),
            ]
    return bounds


async def _alone(journal: Journal, lake: Lake) -> dict[str, list[float]]:
    """Return the milliseconds that the journal adds to each step, by kind of step."""
    more_ms: dict[str, list[float]] = {"model call": [], "command": []}
    async with _session(None, "bench") as plain, _kept(journal, lake, "bench") as kept:
        for number in range(STEPS):
            for kind, make in _steps(f"{number:08}".ljust(REQUEST_BYTES, ".")).items():
                without_ms = await _timed_ms(make(plain))
                more_ms[kind].append(await _timed_ms(make(kept)) - without_ms)
    assert len([one for one in journal.steps("bench") if one.result]) == 2 * STEPS
    return more_ms


@dataclass(frozen=True)
class More:
    """Time that the journal adds to a step, as a mean."""

    wall_ms: float
    cpu_ms: float
    """In this process. It says more than the other on a busy machine."""


async def _together(journal: Journal, lake: Lake) -> More:
    """Return the time that the journal adds to a step of several attempts."""

    async def work(session: Session) -> None:
        for number in range(STEPS // IN_FLIGHT):
            for make in _steps(f"{number:08}".ljust(REQUEST_BYTES, ".")).values():
                await make(session)

    names = [f"bench-{number}" for number in range(IN_FLIGHT)]
    wall_ms, cpu_ms = [], []
    async with AsyncExitStack() as stack:
        opened = [
            [await stack.enter_async_context(_session(None, name)) for name in names],
            [await stack.enter_async_context(_kept(journal, lake, name)) for name in names],
        ]
        for sessions in opened:
            cpu_s = time.process_time()
            wall_ms.append(await _timed_ms(asyncio.gather(*map(work, sessions))))
            cpu_ms.append(1000 * (time.process_time() - cpu_s))
    steps = 2 * STEPS
    return More((wall_ms[1] - wall_ms[0]) / steps, (cpu_ms[1] - cpu_ms[0]) / steps)


@asynccontextmanager
async def _kept(journal: Journal, lake: Lake, name: str) -> AsyncIterator[Session]:
    """Yield a session of an attempt that the journal records, with two budgets."""
    journal.start(replace(ATTEMPT, attempt_id=name))
    limits = (Limit("attempt", name, 1.0, STEPS), Limit("experiment", "bench", 1.0, 2 * STEPS))
    async with (
        hold_lease(journal, name) as lease,
        _session(JournalLog(journal, lease, blobs(lake), (), limits), name) as session,
    ):
        yield session


def _session(log: JournalLog | None, name: str) -> AbstractAsyncContextManager[Session]:
    """Return a session with a model that answers at once."""
    spec = ScriptedSpec(provider="scripted", replies=["done"] * STEPS)
    task = Task("bench__row", "", "", "")
    return Session.start(
        attempt_id=name,
        models={"": models.build(spec, task, seed=0)},
        workspaces=Memory(),
        log=log,
    )


def _steps(text: str) -> dict[str, Callable[[Session], Awaitable[object]]]:
    request = ModelRequest([{"role": "user", "content": text}], [])
    return {
        "model call": lambda session: session.call(request),
        "command": lambda session: session.run(text, timeout_s=1),
    }


async def _timed_ms(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return 1000 * (time.perf_counter() - start)


class Memory:
    """A workspace in memory that opens itself, supports only steps and never changes."""

    root = "/"

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator["Memory"]:
        yield self

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        return CommandResult(0, "fine\n", 5, truncated=False, timed_out=False, duration_s=0.0)

    async def tree(self) -> str:
        return "0" * 40

    async def checkpoint(self) -> Checkpoint:
        return Checkpoint("0" * 40, b"")


def resume(folder: Path, *, pairs: int) -> list[Bound]:
    """Interrupt an attempt after some steps, and measure the time to resume it."""
    lake, instance = Lake.open(folder), instances.load("bundled")[0]
    asyncio.run(_carry_on(lake, instance, until=RECORDED_STEPS))
    seconds = [
        # Each run adds a call and a command.
        asyncio.run(_carry_on(lake, instance, until=RECORDED_STEPS + 2 * (number + 1)))
        for number in range(pairs)
    ]
    return [
        Bound(
            f"resume of an attempt of {RECORDED_STEPS} steps up to the end of its first live "
            "command, beyond opening its workspace",
            max(seconds),
            RESUME_LIMIT_S,
            "s",
            f"the slowest of {pairs}",
        )
    ]


async def _carry_on(lake: Lake, instance: Instance, *, until: int) -> float:
    """Resume the attempt, and interrupt it when it has `until` steps.

    Return the seconds from opening the journal, as a new process would, without the time for
    opening the workspace.
    """
    task = Task(instance.instance_id, instance.problem_statement, instance.base_commit, "")
    commands = [{"command": f"echo {n} >> README.md"} for n in range(until)]
    spec = ScriptedSpec(provider="scripted", replies=commands)
    workspaces = _Timed(AttemptWorkspaces(instance, Place("host"), "bench", "bench", "bench"))
    clock = time.perf_counter()

    def may_go_on() -> None:
        if len(session.steps) >= until:
            raise Interrupted("enough steps are recorded")

    journal = _journal(lake, f"sqlite:///{lake.root / 'journal.sqlite'}")
    async with (
        hold_lease(journal, "bench") as lease,
        Session.start(
            attempt_id="bench",
            models={"": models.build(spec, task, seed=0)},
            workspaces=workspaces,
            log=JournalLog(journal, lease, blobs(lake), journal.steps("bench")),
            may_go_on=may_go_on,
        ) as session,
    ):
        try:
            await ARMS["mini"].solve(task, session, MiniOptions())
        except Interrupted:
            seconds = time.perf_counter() - clock - workspaces.opening_s
        assert len(session.steps) == until
    journal.close()
    return seconds


class _Timed:
    """The workspaces of an attempt, with the time that it took to open them."""

    def __init__(self, workspaces: AttemptWorkspaces) -> None:
        self.root = workspaces.root
        self.opening_s = 0.0
        self._workspaces = workspaces

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[Workspace]:
        clock = time.perf_counter()
        async with self._workspaces.open(name, image=image, goes_on=goes_on) as workspace:
            self.opening_s += time.perf_counter() - clock
            yield workspace


def _journal(lake: Lake, url: str) -> Journal:
    """Open a journal of the lake and start the attempt in it."""
    journal = Journal.open(url, blobs(lake))
    journal.start(ATTEMPT)
    return journal
