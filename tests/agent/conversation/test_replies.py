"""Flaws of replies, by what each kind of arm takes for a call."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.conversation import replies
from agent.conversation.replies import Flaw, Reader
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import Step

CALL = [{"id": "1", "function": {"name": "bash", "arguments": "{}"}}]
MINI = "```mswea_bash_command\nls\n```"
TOOL = '```json\n{"tool": "ls", "arguments": {}}\n```'
HERMES = '<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>'
ASKED = {"role": "user", "content": "Go on."}
ANSWERED = {"role": "assistant", "content": "I go."}


def native(role: str) -> bool:
    return True


def textual(role: str) -> bool:
    return False


def step(seq: int, content: str, calls: Any = None, **request: Any) -> Step:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    reply = ModelReply(message, Usage(), "none", "m", "stop")
    request = {"messages": [ASKED], **request}
    return Step("agent", seq, "model", request, "d", reply, datetime.now(UTC), 0.0)


@pytest.mark.parametrize(
    ("reader", "reply", "flaws"),
    [
        (replies.reader_of_mini(native), step(0, "", CALL), []),
        (replies.reader_of_mini(native), step(0, TOOL), ["callless"]),
        (replies.reader_of_mini(textual), step(0, MINI), []),
        (replies.reader_of_mini(textual), step(0, f"{MINI}\n{MINI}"), ["callless"]),
        (replies.reader_of_conversations(textual), step(0, TOOL), []),
        (replies.reader_of_conversations(native), step(0, HERMES), []),
        (replies.reader_of_conversations(native), step(0, f"{HERMES} is next"), ["callless"]),
        (replies.reader_of_mini(native), step(0, HERMES), ["callless"]),
        (replies.reader_of_conversations(native), step(0, '{"summary": "x"}'), []),
        (replies.reader_of_conversations(native), step(0, "I would do it."), ["callless"]),
        (replies.reader_of_conversations(native), step(0, " "), ["empty"]),
        (None, step(0, "Hello."), []),
    ],
)
def test_a_reply_without_a_call_is_one_that_its_arm_cannot_use(
    reader: Reader | None, reply: Step, flaws: list[Flaw]
) -> None:
    """The package's own parser decides for mini-swe-agent. Nobody decides without a reader."""
    assert replies.find_flaws([reply], reader) == {("agent", 0): flaws}


def test_a_text_of_a_program_is_its_result_unless_it_goes_on() -> None:
    """Its conversation goes on with the reply, and another one begins with a question."""
    offered = {"fields": {"tools": [{"name": "bash"}]}}
    steps = [
        step(0, "I think.", **offered),
        step(1, "I found it.", messages=[ANSWERED, ASKED]),
        step(2, "I found it."),
    ]
    found = replies.find_flaws(steps, replies.reader_of_programs(steps))
    assert [found["agent", seq] for seq in range(3)] == [["callless"], [], ["repeated"]]
