"""Tool protocols: native tool calls, or a fenced block for models without them."""

import json
import re
from dataclasses import dataclass
from typing import Any, Protocol

from agent.models.protocol import Message, ModelReply

Schema = dict[str, Any]
"""An OpenAI function definition: name, description and the JSON schema of its arguments."""

# JSON strings contain no line ends, so a fence inside one is followed by more of the line.
_BLOCK = re.compile(r"```json[ \t]*\n(.*?)```[ \t]*$", re.DOTALL | re.MULTILINE)


class Malformed(Exception):
    """The reply does not have the required form. The message goes back to the model."""


@dataclass(frozen=True)
class Call:
    """One tool call by the model."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolProtocol(Protocol):
    """The request and the reply format of tool calls."""

    def instructions(self, schemas: list[Schema]) -> str:
        """Return the tool instructions for the system message; may be empty."""
        ...

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        """Return the tool schemas that the request itself carries."""
        ...

    def calls(self, reply: ModelReply) -> list[Call]:
        """Return the tool calls in a reply, at least one.

        Raises:
            Malformed: the reply has no tool call, or not in the required form.
        """
        ...

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        """Return the results of the tools, as messages."""
        ...

    def complaint(self, reply: ModelReply, problem: str) -> list[Message]:
        """Return the description of a format error, as messages that may follow the reply."""
        ...


class NativeTools:
    """The provider's native tool calls."""

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
        # Providers reject a conversation in which a tool call has no result.
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
