"""Messages that a running attempt waits for."""

import asyncio
from collections.abc import Callable

import pytest

from agent.conversation.person import Person
from agent.journal import InboxMessage
from tests.agent.session.runs import ASK, Runs

LIMIT_S = 4.0


@pytest.mark.slow
async def test_waiting_costs_no_time_of_the_attempt(
    runs: Runs, set_timings: Callable[..., None]
) -> None:
    """A wait that is longer than the time limit leaves all of it, now and in later runs."""
    set_timings(inbox_poll_s=0.01)

    async def send() -> None:
        await asyncio.sleep(LIMIT_S + 0.5)
        await asyncio.to_thread(
            runs.journal.inbox("a").send, InboxMessage("1", "say", "go on", "ann")
        )

    async with runs.session(limit_s=LIMIT_S) as session:
        sending = asyncio.create_task(send())
        [heard] = await Person(session, is_chat=True).answer(0, "message", "what next?")
        await sending
        assert heard.text == "go on"
        assert (await session.call(ASK)).message["content"] == "one"
    async with runs.session(limit_s=LIMIT_S) as again:
        assert await Person(again, is_chat=True).answer(0, "message", "what next?") == [heard]
        assert (await again.call(ASK)).message["content"] == "one"
        assert (await again.call(ASK)).message["content"] == "two"
    assert runs.journal.account("a").calls_billed == 2
