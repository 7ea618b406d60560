"""A person and a chat: how soon a message is seen, and how fast a long chat continues."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent import models
from agent.arms import ARMS
from agent.arms.options import LoopOptions
from agent.conversation.person import Person
from agent.errors import Interrupted
from agent.journal import InboxMessage, Journal
from agent.models import Model, ModelReply, ModelRequest
from agent.timings import timings
from tests.agent.arms.conftest import TASK, make_repository
from tests.agent.attempts import begin, open_session
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.bench.timing import Bound

MESSAGES, SEEN_MS = 30, 300.0
TURNS, CONTINUED_S = 200, 2.0


def figures(folder: Path) -> list[Bound]:
    """Measure both on SQLite."""
    seen_ms = asyncio.run(_seen_ms(folder / "seen"))
    calls, seconds = asyncio.run(_continued_s(folder / "long"))
    return [
        Bound(
            "a sent message is seen by a waiting attempt, median",
            statistics.median(seen_ms),
            SEEN_MS,
            "ms",
            f"{MESSAGES} messages at random moments, the slowest {max(seen_ms):.0f} ms",
        ),
        Bound(
            f"a chat of {TURNS} turns continues up to its next wait",
            seconds,
            CONTINUED_S,
            "s",
            f"{calls} calls from the record",
        ),
    ]


async def _seen_ms(folder: Path) -> list[float]:
    """Return the milliseconds from sending each message to its recorded reading."""
    journal, took_ms = begin(folder), []
    async with open_session(journal, folder, None, workspaces=WORKSPACES) as session:
        person, inbox = Person(session, is_chat=True), journal.inbox("a")
        for number in range(MESSAGES):
            reading = asyncio.create_task(person.answer(number, "message", "?"))
            await asyncio.sleep(random.uniform(0.05, 0.05 + 2 * timings().inbox_poll_s))
            began = time.perf_counter()
            await asyncio.to_thread(inbox.send, _message(number))
            await reading
            took_ms.append(1000 * (time.perf_counter() - began))
    return took_ms


WORKSPACES = HostWorkspaces(make_repository)
"""The same for both runs of a chat, so that its repository is at the same place."""


class _Talkative:
    """A model in whose calls the person sends the next message, so that nothing is awaited."""

    def __init__(self, journal: Journal, ended: Callable[[], None]) -> None:
        script = {"provider": "scripted", "replies": [str(number) for number in range(TURNS)]}
        self._scripted = models.build(models.parse(script), TASK, 0)
        self._inbox, self._ended = journal.inbox("a"), ended
        self.info, self.ceiling_usd = self._scripted.info, self._scripted.ceiling_usd

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.number + 1 < TURNS:
            await asyncio.to_thread(self._inbox.send, _message(request.number + 1))
        else:
            self._ended()
        return await self._scripted.complete(request)


async def _continued_s(folder: Path) -> tuple[int, float]:
    """Return the calls of a chat, and the seconds that it takes to be where it was."""
    journal, is_over = begin(folder), asyncio.Event()

    def until_over() -> None:
        if is_over.is_set():
            raise Interrupted("enough turns are recorded")

    await _talk(journal, folder, _Talkative(journal, is_over.set), until_over)
    began = time.perf_counter()
    await _talk(journal, folder, _Talkative(journal, is_over.set), until_over)
    took_s = time.perf_counter() - began
    steps = journal.steps("a")
    calls = sum(step.kind == "model" for step in steps)
    if calls != TURNS:
        raise RuntimeError(f"{calls} calls are on record, in place of {TURNS}")
    return calls, took_s


async def _talk(
    journal: Journal, folder: Path, model: Model, may_go_on: Callable[[], None]
) -> None:
    options = LoopOptions(interactive=True, capabilities=["files"])
    given = {"workspaces": WORKSPACES, "may_go_on": may_go_on}
    async with open_session(journal, folder, model, **given) as session:
        with suppress(Interrupted):
            await ARMS["loop"].solve(TASK, session, options)


def _message(number: int) -> InboxMessage:
    return InboxMessage(f"message-{number}", "say", f"Reply with the number {number}.", "bench")
