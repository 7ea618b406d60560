"""A conversation with a model in one of the durable arm's roles, as the arm conducts it."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.arms.durable import answers
from agent.conversation.transcript import as_markdown
from agent.models.protocol import Message, ModelRequest

ANSWERS: dict[str, type[answers.Answer]] = {
    "solver": answers.Work,
    "adjudicator": answers.Ruling,
    "scout": answers.Scouting,
    "contract": answers.Contract,
    "gatherer": answers.Gathered,
    "brief": answers.Brief,
    "anchor": answers.AnchorClaim,
    "planner": answers.PlanTurn,
    "implementer": answers.StepReport,
    "step_reviewer": answers.Review,
    "final_reviewer": answers.Review,
}
TOOLS = [{"type": "function", "function": {"name": "answer", "parameters": {}}}]
MOST_REPLIES = 40


@dataclass(frozen=True)
class Call:
    """One tool call of a model."""

    tool: str
    arguments: dict[str, Any]


def opening(facts: dict[str, Any]) -> list[Message]:
    """Return the first two messages: the role's instructions and its facts."""
    text = as_markdown(facts)
    return [{"role": "system", "content": "You help."}, {"role": "user", "content": text}]


def request(role: str, facts: dict[str, Any], *, scope: str = "", number: int = 0) -> ModelRequest:
    """Return the first request of a conversation."""
    return ModelRequest(opening(facts), TOOLS, number=number, role=role, scope=scope, facts=facts)


def talk(
    model: Any,
    role: str,
    facts: dict[str, Any],
    *,
    scope: str = "",
    number: int = 0,
    native: bool = True,
    act: Callable[[Call], str] = lambda call: "done",
) -> list[Call]:
    """Hold a conversation to its end. Return its calls, with the answer last. Check its class.

    `act` executes a tool call and returns its result.
    """
    messages = opening(facts)
    calls: list[Call] = []
    for n in range(MOST_REPLIES):
        tools = TOOLS if native else []
        asked = ModelRequest(
            list(messages), tools, number=number + n, role=role, scope=scope, facts=facts
        )
        message = asyncio.run(model.complete(asked)).message
        messages.append(message)
        call = called(message)
        if call is None:
            messages.append({"role": "user", "content": "That was no tool call."})
            continue
        calls.append(call)
        if call.tool == "answer":
            ANSWERS[role].model_validate(call.arguments)
            return calls
        messages.append({"role": "tool" if native else "user", "content": act(call)})
    raise AssertionError(f"the {role} never answered")


def called(message: Message) -> Call | None:
    """Return the tool call of a reply in either protocol, or None if the reply is malformed."""
    try:
        if message.get("tool_calls"):
            function = message["tool_calls"][0]["function"]
            return Call(function["name"], json.loads(function["arguments"]))
        found = re.findall(r"```json\n(.*?)\n```", message["content"], re.DOTALL)
        fields = json.loads(found[0]) if len(found) == 1 else {}
        return Call(fields["tool"], fields["arguments"])
    except (ValueError, KeyError):
        return None
