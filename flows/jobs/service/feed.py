"""The steps of jobs while they work, read once for all who watch, and their WebSocket.

A watcher gets every step of its job from the beginning, in the order in which results arrived, so
that it may come back at any time. Each step has a key by which a client leaves out what it has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any

from fastapi import APIRouter, Depends, WebSocket, WebSocketDisconnect
from prefect.client.orchestration import PrefectClient
from starlette.requests import HTTPConnection

from agent.errors import InfrastructureError
from agent.journal import RecordedStep
from agent.journal.watching import Watched
from agent.session.steps import from_record
from flows.display.errors import UsageError
from flows.display.steps import of_step
from flows.jobs.mailbox import read_asks
from flows.jobs.service.board import Board, JobStatus
from flows.jobs.service.guard import Limits, Problem
from flows.storage.job_names import experiment_of
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake
from flows.storage.report_files import read_attempt_steps
from reports.steps import StepView

MOST_WATCHERS = 500
MOST_CHARACTERS = 4_000
"""Characters of the input and of the output of a step that a watcher gets."""

NORMAL, TRY_AGAIN_LATER = 1000, 1013

router = APIRouter()

Event = dict[str, Any]
_STEPS_S = 0.2
"""Interval at which the journal is read while a job is followed."""

_LOOKS = 5
"""After so many looks at the journal, the state is read from the lake and from Prefect, too."""

_log = logging.getLogger("durabench.service")


@dataclass
class _Watched:
    """The known state of a job that somebody watches, and the task that reads it."""

    status: JobStatus
    asks: list[Event] = field(default_factory=list)
    """The attempts that wait for a person."""
    steps: list[Event] = field(default_factory=list)
    known: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Steps of each attempt that are among `steps`."""
    is_over: bool = False
    """True if the job is final and its last steps were read."""
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Wake all waiters for a change."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class Feed:
    """Reads the journal and the state of each job as long as one of its sockets is open."""

    def __init__(self, lake: Lake, board: Board) -> None:
        self._lake, self._board = lake, board
        self._jobs: dict[str, _Watched] = {}

    async def events(self, known: JobStatus) -> AsyncGenerator[Event, None]:
        """Yield the status, the steps and the end of a job as they happen.

        `known` is the status so far, which comes first.

        Raises:
            Problem: too many watch already.
        """
        if sum(job.watchers for job in self._jobs.values()) >= MOST_WATCHERS:
            raise Problem(503, f"{MOST_WATCHERS} watch already: try again later")
        job = self._jobs.setdefault(known.id, _Watched(known))
        job.watchers += 1
        job.reading = job.reading or asyncio.create_task(self._follow(job))
        try:
            sent, shown = 0, None
            while True:
                changed, is_over = job.changed, job.is_over
                status, asks = job.status, job.asks
                if (status, asks) != shown:
                    shown = (status, asks)
                    yield {"type": "status", "job": status.as_json(), "asks": asks}
                while sent < len(job.steps):
                    sent += 1
                    yield job.steps[sent - 1]
                if is_over:
                    yield {"type": "end", "state": status.state}
                    return
                await changed.wait()
        finally:
            job.watchers -= 1
            if not job.watchers:
                self._jobs.pop(known.id, None)
                job.reading.cancel()

    async def close(self) -> None:
        """Stop reading."""
        tasks = [job.reading for job in self._jobs.values() if job.reading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, job: _Watched) -> None:
        """Read a job until it is over: its steps often, and its state now and then."""
        for look in count():
            try:
                if look % _LOOKS == 0:
                    await self._read_state(job)
                is_final = job.status.is_final
                await self._read_steps(job)
                if is_final:
                    job.is_over = True
                    job.tell()
                    return
            except (Problem, InfrastructureError, UsageError) as error:
                _log.warning("%s", error)  # it may come back, and watchers stay
            except Exception:
                _log.exception("the steps of job %s cannot be read", job.status.id)
            await asyncio.sleep(_STEPS_S)

    async def _read_state(self, job: _Watched) -> None:
        job_id = job.status.id
        status = (await self._board.statuses([job_id])).get(job_id, job.status)
        waiting = await asyncio.to_thread(read_asks, self._lake, job_id)
        asks = [] if status.is_final else [each.as_json() for each in waiting]
        if (job.status, job.asks) != (status, asks):
            job.status, job.asks = status, asks
            job.tell()

    async def _read_steps(self, job: _Watched) -> None:
        for event in await asyncio.to_thread(self._new_steps, job):
            job.steps.append(event)
            job.tell()

    def _new_steps(self, job: _Watched) -> list[Event]:
        journal = existing_journal(self._lake)
        found = []
        watching = [experiment_of(job.status.id)]
        for each in journal.watching.attempts(watching) if journal else []:
            known = job.known.setdefault(each.attempt.attempt_id, set())
            if journal and each.steps > len(known):
                new = journal.watching.new_steps(each.attempt.attempt_id, frozenset(known))
                known |= {(step.scope, step.seq) for step in new}
                found += [_event(each, step) for step in new]
        return found


@dataclass(frozen=True)
class Service:
    """Objects that all requests share."""

    lake: Lake
    client: PrefectClient
    board: Board
    feed: Feed
    limits: Limits


def service_of(connection: HTTPConnection) -> Service:
    """Return the service that a request is for."""
    service: Service = connection.app.state.service
    return service


Used = Annotated[Service, Depends(service_of)]


@router.websocket("/ws/{job_id}")
async def follow(websocket: WebSocket, job_id: str, service: Used) -> None:
    """Send what happens in a job from its beginning until it ends."""
    known = await service.board.status(job_id)
    await websocket.accept()
    sending = asyncio.create_task(_send(websocket, service.feed, known))
    gone = asyncio.create_task(_until_gone(websocket))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, gone):
            task.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


async def _send(websocket: WebSocket, feed: Feed, known: JobStatus) -> None:
    with suppress(WebSocketDisconnect):
        try:
            async with aclosing(feed.events(known)) as events:
                async for event in events:
                    await websocket.send_json(event)
        except Problem as problem:
            await websocket.close(TRY_AGAIN_LATER, str(problem))
        else:
            await websocket.close(NORMAL)


async def _until_gone(websocket: WebSocket) -> None:
    """Return when the client has closed the socket. What it says is of no interest."""
    with suppress(WebSocketDisconnect):
        while True:
            await websocket.receive_text()


def read_steps(lake: Lake, job_id: str) -> list[Event]:
    """Return the steps of a job so far, of all attempts, in the order in which they began.

    Pruned steps are read from the lake.
    """
    journal = existing_journal(lake)
    found = []
    for watched in journal.watching.attempts([experiment_of(job_id)]) if journal else []:
        new = journal.watching.new_steps(watched.attempt.attempt_id, ()) if journal else []
        if new:
            found += [_event(watched, recorded) for recorded in new]
        else:
            own = read_attempt_steps(lake, watched.attempt.attempt_id)
            found += [_of_view(watched, step) for step in own]
    return sorted(found, key=lambda event: event["at"] or "")


def _event(watched: Watched, recorded: RecordedStep) -> Event:
    return _of_view(watched, of_step(from_record(recorded)))


def _of_view(watched: Watched, step: StepView) -> Event:
    spent = step.spent
    return {
        "type": "step",
        "key": f"{watched.attempt.attempt_id}/{step.origin.place}",
        "attempt": watched.attempt.attempt_id,
        "arm": watched.attempt.arm,
        "place": step.origin.place,
        "kind": step.origin.kind,
        "name": step.name,
        "did": step.did,
        "outcome": step.outcome,
        "facts": "; ".join(step.facts),
        "at": step.origin.at.isoformat(timespec="milliseconds") if step.origin.at else None,
        "duration_s": step.origin.duration_s,
        "cost_usd": spent.cost_usd if spent else None if step.origin.kind == "model" else 0.0,
        "input_tokens": spent.input_tokens if spent else None,
        "output_tokens": spent.output_tokens if spent else None,
        "asked": step.asked[:MOST_CHARACTERS],
        "result": step.result[:MOST_CHARACTERS],
    }
