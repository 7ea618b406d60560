"""A chat with the loop arm, and messages to one that works."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.errors import Waiting
from tests.agent.arms.durable.conftest import FIX, Said
from tests.agent.arms.loop.conftest import DONE, Attempts, send

pytestmark = [pytest.mark.usefixtures("idle_at_once")]

READ: Said = [("read", {"path": "calc.py"})]


async def chat(
    attempts: Attempts, replies: list[Said] | Callable[..., Said], **options: Any
) -> Any:
    """Run a chat until it waits or ends. Return its outcome, or None if it waits."""
    try:
        return await attempts.run({"loop": replies}, ["files"], interactive=True, **options)
    except Waiting:
        return None


def spoken(attempts: Attempts) -> list[str]:
    """Return what the last request holds of people, after the facts."""
    messages = attempts.model.asked[-1].messages
    return [m["content"] for m in messages if m["role"] == "user"][1:]


async def test_a_chat_goes_on_with_the_next_message(attempts: Attempts) -> None:
    """It waits after each answer, and the next run buys nothing again. The end submits."""
    replies: list[Said] = [[FIX], "I fixed it.", READ, "It adds now."]
    assert await chat(attempts, replies) is None
    wait = attempts.journal.inbox("a").wait()
    assert wait is not None
    assert (wait.wanted, wait.about) == ("message", "I fixed it.")
    send(attempts, "what does it do now?")
    assert await chat(attempts, replies) is None
    assert spoken(attempts) == ["what does it do now?"]
    assert len(attempts.model.asked) == 2
    assert attempts.journal.inbox("a").wait().about == "It adds now."  # type: ignore[union-attr]
    send(attempts, "", "end")
    outcome = await chat(attempts, replies)
    assert (outcome.status, outcome.detail) == ("submitted", "It adds now.")
    assert "+    return a + b" in outcome.patch
    assert attempts.model.asked == []


async def test_what_is_said_during_the_work_comes_before_the_next_call(attempts: Attempts) -> None:
    """It is an event beside the conversation, which a later run reads at the same place."""

    def replies(number: int, request: Any) -> Said:
        if number == 0:
            send(attempts, "leave the tests alone")
            send(attempts, "and hurry")
        return [READ, [FIX], DONE][number]

    outcome = await attempts.run({"loop": replies}, ["files"])
    assert outcome.status == "submitted"
    [said] = [m["content"] for m in attempts.model.asked[1].messages[2:] if m["role"] == "user"]
    assert said.endswith("says:\n\nleave the tests alone\n\nand hurry")
    assert "work/inbox/0 event" in attempts.places
    places = attempts.places
    again = await attempts.run({"loop": replies}, ["files"])
    assert (again, attempts.places, attempts.model.asked) == (outcome, places, [])


async def test_the_end_of_an_attempt_at_work_submits_nothing_as_done(attempts: Attempts) -> None:
    """The change so far is kept, and no further call is made."""

    def replies(number: int, request: Any) -> Said:
        send(attempts, "enough", "end")
        return [FIX]

    outcome = await attempts.run({"loop": replies}, ["files"])
    assert (outcome.status, outcome.detail) == ("gave_up", "ended by ann: enough")
    assert "+    return a + b" in outcome.patch
    assert len(attempts.model.asked) == 1


async def test_a_question_waits_for_its_answer(attempts: Attempts) -> None:
    """The answer is the result of the tool. The other calls of the reply are done meanwhile."""

    async def run() -> Any:
        asked: Said = [("ask", {"question": "which one?"}), FIX]
        try:
            return await attempts.run({"loop": [asked, DONE]}, ["files", "ask"])
        except Waiting:
            return None

    assert await run() is None
    wait = attempts.journal.inbox("a").wait()
    assert wait is not None
    assert (wait.wanted, wait.about) == ("answer", "which one?")
    send(attempts, "the first")
    outcome = await run()
    assert outcome.status == "submitted"
    assert attempts.told()[0] == "the first"
    assert "work/ask-1/inbox/0 event" in attempts.places


async def test_what_is_said_during_the_last_call_is_heard(attempts: Attempts) -> None:
    """The answer is not the last one. Once the change was read, it is too late."""

    def replies(number: int, request: Any) -> Said:
        if number == 1:
            send(attempts, "and read it")
        return [[FIX], DONE, READ, DONE][number]

    outcome = await attempts.run({"loop": replies}, ["files"])
    assert len(attempts.model.asked) == 4
    assert "and read it" in attempts.told(2)[-1]
    send(attempts, "too late")
    assert await attempts.run({"loop": replies}, ["files"]) == outcome
    assert attempts.model.asked == []
