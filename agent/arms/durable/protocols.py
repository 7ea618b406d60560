"""How a model asks for a tool: native tool calls, or a fenced block where it has none."""

import json
import re
from dataclasses import dataclass
from typing import Any, Protocol

from agent.models.protocol import Message, ModelReply

Schema = dict[str, Any]
"""An OpenAI function definition: name, description and the JSON schema of its arguments."""

# What JSON quotes has no line ends, so a fence inside it is followed by more of the line.
_BLOCK = re.compile(r"```json[ \t]*\n(.*?)```[ \t]*$", re.DOTALL | re.MULTILINE)


class Malformed(Exception):
    """The reply is not what was asked for; the message goes back to the model."""


@dataclass(frozen=True)
class Call:
    """One tool that the model asked for."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolProtocol(Protocol):
    """Both sides of asking for tools."""

    def instructions(self, schemas: list[Schema]) -> str:
        """What the system message says about tools; may be empty."""
        ...

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        """What the request itself carries."""
        ...

    def calls(self, reply: ModelReply) -> list[Call]:
        """The tools that a reply asks for, at least one.

        Raises:
            Malformed: it asks for none, or not in the way that was asked for.
        """
        ...

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        """What the tools gave, as messages."""
        ...

    def complaint(self, reply: ModelReply, problem: str) -> list[Message]:
        """What is wrong with a reply, as messages that may follow it."""
        ...


class NativeTools:
    """Tool calls of the provider's own."""

    def instructions(self, schemas: list[Schema]) -> str:
        return "Every reply calls at least one tool; call `answer` when you are finished."

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        return schemas

    def calls(self, reply: ModelReply) -> list[Call]:
        asked = reply.message.get("tool_calls") or []
        if not asked:
            raise Malformed("the reply calls no tool")
        return [_native(call) for call in asked]

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        return [
            {"role": "tool", "tool_call_id": call.id, "content": output} for call, output in outputs
        ]

    def complaint(self, reply: ModelReply, problem: str) -> list[Message]:
        # Providers refuse a conversation in which a tool call stays without its result.
        asked = reply.message.get("tool_calls") or []
        if not asked:
            return [{"role": "user", "content": problem}]
        return [
            {"role": "tool", "tool_call_id": call.get("id") or "", "content": problem}
            for call in asked
        ]


class TextTools:
    """One fenced block of JSON per reply."""

    def instructions(self, schemas: list[Schema]) -> str:
        tools = "\n".join(json.dumps(schema["function"], sort_keys=True) for schema in schemas)
        return (
            "Every reply holds exactly one block that asks for one tool:\n\n"
            '```json\n{"tool": "<name>", "arguments": {...}}\n```\n\n'
            f"Ask for `answer` when you are finished. The tools:\n\n{tools}"
        )

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        return []

    def calls(self, reply: ModelReply) -> list[Call]:
        blocks = _BLOCK.findall(str(reply.message.get("content") or ""))
        if len(blocks) != 1:
            raise Malformed(f"the reply holds {len(blocks)} ```json blocks instead of one")
        asked = _json_object(blocks[0])
        if not isinstance(asked.get("tool"), str) or not isinstance(asked.get("arguments"), dict):
            raise Malformed('the block needs "tool", a name, and "arguments", an object')
        return [Call("", asked["tool"], asked["arguments"])]

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        shown = "\n\n".join(f"Result of {call.name}:\n{output}" for call, output in outputs)
        return [{"role": "user", "content": shown}]

    def complaint(self, reply: ModelReply, problem: str) -> list[Message]:
        return [{"role": "user", "content": problem}]


def _native(call: dict[str, Any]) -> Call:
    function = call.get("function") or {}
    name, arguments = str(function.get("name")), function.get("arguments")
    return Call(str(call.get("id") or ""), name, _json_object(str(arguments or "{}")))


def _json_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise Malformed(f"the arguments are not JSON: {error}") from None
    if not isinstance(content, dict):
        raise Malformed("the arguments are not a JSON object")
    return content
