"""The steps of jobs while they work, read once for all who watch, and their WebSocket.

A watcher gets every step of its job from the beginning, in the order in which results arrived, so
that it may come back at any time. Each step has a key, with which a client skips steps that it has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any

from fastapi import APIRouter, Depends, WebSocket
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
"""After so many looks at the journal, the state is read from the lake and from Prefect."""

_log = logging.getLogger("durabench.service")


@dataclass
class _Watched:
    """The last state of a watched job, and the task that reads it."""

    status: JobStatus
    asks: list[Event] = field(default_factory=list)
    """The attempts that wait for a person."""
    steps: list[Event] = field(default_factory=list)
    sent: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Steps of each attempt that are among `steps`."""
    is_over: bool = False
    """True if the job is final and its last steps were read."""
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Task[None] | None = None

    def wake(self) -> None:
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
            sent, last = 0, None
            while True:
                changed, is_over = job.changed, job.is_over
                status, asks = job.status, job.asks
                if (status, asks) != last:
                    last = (status, asks)
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
        job_id = job.status.id
        for look in count():
            try:
                if look % _LOOKS == 0:
                    status = (await self._board.statuses([job_id])).get(job_id, job.status)
                    waiting = await asyncio.to_thread(read_asks, self._lake, job_id)
                    asks = [] if status.is_final else [ask.as_json() for ask in waiting]
                    if (job.status, job.asks) != (status, asks):
                        job.status, job.asks = status, asks
                        job.wake()
                is_final = job.status.is_final
                if events := await asyncio.to_thread(self._new_steps, job):
                    job.steps += events
                    job.wake()
                if is_final:
                    job.is_over = True
                    job.wake()
                    return
            except (Problem, InfrastructureError, UsageError) as error:
                _log.warning("%s", error)  # it may come back, and watchers stay
            except Exception:
                _log.exception("the steps of job %s cannot be read", job_id)
            await asyncio.sleep(_STEPS_S)

    def _new_steps(self, job: _Watched) -> list[Event]:
        journal = existing_journal(self._lake)
        if journal is None:
            return []
        events = []
        for watched in journal.watching.attempts([experiment_of(job.status.id)]):
            attempt_id = watched.attempt.attempt_id
            sent = job.sent.setdefault(attempt_id, set())
            if watched.steps > len(sent):
                steps = journal.watching.new_steps(attempt_id, frozenset(sent))
                sent |= {(step.scope, step.seq) for step in steps}
                events += [_event(watched, step) for step in steps]
        return events


@dataclass(frozen=True)
class Service:
    """Objects that all requests share."""

    lake: Lake
    client: PrefectClient
    board: Board
    feed: Feed
    limits: Limits
    defaults: Mapping[str, Any]
    """Fields of jobs and pipelines that a client leaves out: `model` and `budget_usd`."""
    repairs: int
    """How often failures of CI go back to a job."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Orders to Prefect take turns."""


def service_of(connection: HTTPConnection) -> Service:
    """Return the service that a request is for."""
    service: Service = connection.app.state.service
    return service


Used = Annotated[Service, Depends(service_of)]


@router.websocket("/ws/{job_id}")
async def follow(websocket: WebSocket, job_id: str, service: Used) -> None:
    """Send what happens in a job from its beginning until it ends."""
    status = await service.board.status(job_id)
    await websocket.accept()

    async def send() -> None:
        try:
            async with aclosing(service.feed.events(status)) as events:
                async for event in events:
                    await websocket.send_json(event)
        except Problem as problem:
            await websocket.close(TRY_AGAIN_LATER, str(problem))
        else:
            await websocket.close(NORMAL)

    async def receive() -> None:
        """Return when the client has closed the socket. Its messages are ignored."""
        while True:
            await websocket.receive_text()

    tasks = [asyncio.create_task(send()), asyncio.create_task(receive())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def read_steps(lake: Lake, job_id: str) -> list[Event]:
    """Return the steps of a job so far, of all attempts, in the order in which they started.

    Pruned steps are read from the lake.
    """
    journal = existing_journal(lake)
    if journal is None:
        return []
    events = []
    for watched in journal.watching.attempts([experiment_of(job_id)]):
        attempt_id = watched.attempt.attempt_id
        if steps := journal.watching.new_steps(attempt_id, ()):
            events += [_event(watched, step) for step in steps]
        else:
            events += [
                _event_of_view(watched, view) for view in read_attempt_steps(lake, attempt_id)
            ]
    return sorted(events, key=lambda event: event["at"] or "")


def _event(watched: Watched, recorded: RecordedStep) -> Event:
    return _event_of_view(watched, of_step(from_record(recorded)))


def _event_of_view(watched: Watched, step: StepView) -> Event:
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
