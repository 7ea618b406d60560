"""Three dialects of model APIs that reject the same requests as the real ones.

In a test, with a function that returns the model's replies:

    strict = Chat(replies)          # or Responses, or Anthropic
    with OpenAIServer(strict) as server:
        ...  # server.url is the `api_base`; strict.refused should be empty

The rules are documented by the providers, or reported by users as errors with status 400.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.servers.openai_server import USAGE, Reply
from tests.servers.responses_stream import as_events

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ENCRYPTED = "reasoning.encrypted_content"


@dataclass(frozen=True)
class Called:
    """One call of a reply."""

    name: str
    arguments: str
    id: str = "call_1"


@dataclass(frozen=True)
class Said:
    """One reply of a model."""

    text: str | None = None
    calls: tuple[Called, ...] = ()
    is_cut: bool = False
    thinks: bool = False


@dataclass(frozen=True)
class Asked:
    """One request, in the same form for all dialects."""

    system: str
    first: str
    """The first message of the user."""
    turns: int
    """Number of replies of the model in the request."""
    results: list[str]
    """Tool results, in order."""
    last: str
    """The last message of the user or the last tool result."""
    tools: list[str]
    choice: str | None
    """The name of the forced tool."""


class RefusedRequest(Exception):
    """A provider would reject the request."""


def check(condition: object, problem: str) -> None:
    if not condition:
        raise RefusedRequest(problem)


@dataclass
class Dialect(ABC):
    """A script for the server that checks requests and converts replies to the dialect."""

    says: Callable[[Asked], Said]
    reasons: bool = False
    """True for a reasoning model."""
    refused: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    _sent: int = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        try:
            asked = self.read(body)
        except RefusedRequest as error:
            self.refused.append(str(error))
            return Reply(self.error(str(error)), 400)
        self.asked.append(asked)
        self._sent += 1
        return self.sent(self.written(self.says(asked), self._sent), body)

    def sent(self, written: dict[str, Any], body: dict[str, Any]) -> Reply:
        """Return the response to a request. The server itself streams chat completions."""
        return Reply(written)

    @abstractmethod
    def read(self, body: dict[str, Any]) -> Asked:
        """Check a request.

        Raises:
            RefusedRequest: a provider would reject it.
        """

    @abstractmethod
    def written(self, said: Said, number: int) -> dict[str, Any]:
        """Return the reply in the form of the dialect."""

    def error(self, problem: str) -> dict[str, Any]:
        error = {"message": problem, "type": "invalid_request_error", "param": None, "code": None}
        return {"error": error}


def check_tools(names: list[str], choice: str | None) -> None:
    for name in names:
        check(NAME.match(name), f"Invalid tool name {name!r}: it does not match the pattern")
    check(len(set(names)) == len(names), "Tool names must be unique.")
    check(choice is None or choice in names, f"Tool choice {choice!r} is not among the tools.")


def check_arguments(text: Any) -> None:
    """Check the arguments of a call. OpenAI does not, but many compatible servers do."""
    check(isinstance(text, str), "Invalid type for 'function.arguments': expected a string.")
    try:
        check(isinstance(json.loads(text), dict), "The arguments are not a JSON object.")
    except ValueError:
        raise RefusedRequest("The arguments of a call are not valid JSON.") from None


def text_in(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


class Chat(Dialect):
    """OpenAI's chat completions."""

    FIELDS: ClassVar = {
        "system": {"role", "content", "name"},
        "user": {"role", "content", "name"},
        "assistant": {"role", "content", "name", "tool_calls", "refusal"},
        "tool": {"role", "content", "tool_call_id"},
    }

    def read(self, body: dict[str, Any]) -> Asked:
        if self.reasons:
            check("max_tokens" not in body, "Unsupported parameter: 'max_tokens'.")
            check(body.get("temperature", 1) == 1, "Unsupported value: 'temperature'.")
        else:
            check("reasoning_effort" not in body, "Unrecognized argument: reasoning_effort")
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        choice = body.get("tool_choice")
        forced = choice["function"]["name"] if isinstance(choice, dict) else None
        check(choice is None or tools, "'tool_choice' is only allowed when 'tools' are specified.")
        check_tools(tools, forced)
        messages = body["messages"]
        self._check_pairs(messages)
        results = [text_in(each["content"]) for each in messages if each["role"] == "tool"]
        told = [text_in(m["content"]) for m in messages if m["role"] in ("user", "tool")]
        return Asked(
            system=text_in(messages[0]["content"]),
            first=told[0],
            turns=sum(message["role"] == "assistant" for message in messages),
            results=results,
            last=told[-1],
            tools=tools,
            choice=forced,
        )

    def _check_pairs(self, messages: list[dict[str, Any]]) -> None:
        waiting: list[str] = []
        seen: set[str] = set()
        for at, message in enumerate(messages):
            role = message["role"]
            unknown = message.keys() - self.FIELDS[role]
            check(not unknown, f"Unrecognized fields in messages[{at}]: {sorted(unknown)}")
            if role == "tool":
                own = message["tool_call_id"]
                check(
                    own in waiting,
                    "messages with role 'tool' must be a response to a preceeding message with "
                    f"'tool_calls': messages[{at}]",
                )
                waiting.remove(own)
                check(message.get("content") is not None, f"messages[{at}].content is null")
                continue
            check(not waiting, f"tool_call_ids did not have response messages: {waiting}")
            if role != "assistant":
                check(isinstance(message.get("content"), str | list), f"messages[{at}].content")
                continue
            calls = message.get("tool_calls")
            check(calls is None or calls, f"Invalid 'messages[{at}].tool_calls': empty array.")
            check(
                calls or message.get("content"),
                f"Invalid value for 'content' of messages[{at}]: expected a string, got null.",
            )
            for call in calls or []:
                check(call["id"] and call["id"] not in seen, f"Duplicate id {call['id']!r}")
                check(NAME.match(call["function"]["name"]), f"messages[{at}]: name of a tool call")
                check_arguments(call["function"]["arguments"])
                seen.add(call["id"])
                waiting.append(call["id"])
        check(not waiting, f"tool_call_ids did not have response messages: {waiting}")

    def written(self, said: Said, number: int) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        if said.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in said.calls
            ]
        finish = "length" if said.is_cut else "tool_calls" if said.calls else "stop"
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": USAGE,
        }


@dataclass
class Responses(Dialect):
    """OpenAI's Responses API."""

    _reasoning_of: dict[str, str] = field(default_factory=dict)
    """Id of the reasoning item by the id of the call that follows it."""

    def sent(self, written: dict[str, Any], body: dict[str, Any]) -> Reply:
        if not body.get("stream"):
            return Reply(written)
        return Reply(as_events(written), headers={"Content-Type": "text/event-stream"})

    def read(self, body: dict[str, Any]) -> Asked:
        check("max_tokens" not in body, "Unknown parameter: 'max_tokens'.")
        check(body.get("max_output_tokens", 16) >= 16, "Invalid 'max_output_tokens'.")
        if self.reasons:
            check(body.get("temperature", 1) == 1, "Unsupported parameter: 'temperature'.")
        else:
            check(
                ENCRYPTED not in (body.get("include") or []), "Encrypted content is not supported"
            )
            check(not body.get("reasoning"), "Unsupported parameter: 'reasoning.effort'.")
        tools = [tool["name"] for tool in body.get("tools") or []]
        choice = body.get("tool_choice")
        forced = choice["name"] if isinstance(choice, dict) else None
        check_tools(tools, forced)
        turns = self._check_items(body["input"], stores=body.get("store", True))
        results = [
            text_in(item["output"])
            for item in body["input"]
            if item["type"] == "function_call_output"
        ]
        told = [
            text_in(item.get("content") or item.get("output"))
            for item in body["input"]
            if item["type"] == "function_call_output" or item.get("role") == "user"
        ]
        return Asked(
            system=body.get("instructions") or "",
            first=told[0],
            turns=turns,
            results=results,
            last=told[-1],
            tools=tools,
            choice=forced,
        )

    def _check_items(self, items: list[dict[str, Any]], *, stores: bool) -> int:
        """Check the items and return the number of replies among them."""
        open_calls: list[str] = []
        called: set[str] = set()
        reasoning, of_reply = "", ""
        turns, is_reply = 0, False
        for item in items:
            kind = item["type"]
            by_model = kind in ("function_call", "reasoning") or item.get("role") == "assistant"
            turns += by_model and not is_reply
            is_reply = by_model
            of_reply = of_reply if by_model else ""
            if kind == "function_call_output":
                own = item["call_id"]
                check(own in called, f"No tool call found for function call output with {own}.")
                check(own in open_calls, f"Duplicate function call output for {own}.")
                open_calls.remove(own)
            elif kind == "message" and item["role"] == "assistant":
                types = {part["type"] for part in item["content"]}
                check(types == {"output_text"}, f"Invalid value: {types} of an assistant message")
            elif kind == "message":
                check(not open_calls, f"No tool output found for function call {open_calls}.")
                types = {part["type"] for part in item["content"]}
                check(types == {"input_text"}, f"Invalid value: {types} of a user's message")
            elif kind == "function_call":
                own = item["call_id"]
                check(own and own not in called, f"Duplicate call_id {own!r}.")
                check(NAME.match(item["name"]), "Invalid name of a function call")
                check_arguments(item["arguments"])
                called.add(own)
                open_calls.append(own)
                expected = self._reasoning_of.get(own)
                check(
                    expected in (None, of_reply),
                    f"Item of type 'function_call' was provided without its required 'reasoning' "
                    f"item: '{expected}'.",
                )
            if kind == "reasoning":
                check(not reasoning, f"Item '{reasoning}' was provided without its following item.")
                reasoning = of_reply = item["id"]
                check(
                    stores or item.get("encrypted_content") == f"secret-{reasoning}",
                    f"Item with id '{reasoning}' not found. Items are not persisted when `store` "
                    "is set to false.",
                )
            else:
                check(not reasoning or by_model, f"Item '{reasoning}' without its following item.")
                reasoning = ""
        check(not reasoning, f"Item '{reasoning}' was provided without its following item.")
        check(not open_calls, f"No tool output found for function call {open_calls}.")
        return turns

    def written(self, said: Said, number: int) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if said.thinks:
            own = f"rs_{number}"
            secret = {"encrypted_content": f"secret-{own}"}
            output.append({"type": "reasoning", "id": own, "summary": [], **secret})
            for call in said.calls[:1]:
                self._reasoning_of.setdefault(call.id, own)
        if said.text is not None:
            part = {"type": "output_text", "text": said.text, "annotations": []}
            output.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        output += [
            {
                "type": "function_call",
                "id": f"fc_{number}_{at}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
            for at, call in enumerate(said.calls)
        ]
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": "test",
            "status": "incomplete" if said.is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if said.is_cut else None,
            "error": None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 100,
                "output_tokens": 10,
                "total_tokens": 110,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }


class Anthropic(Dialect):
    """Anthropic's messages."""

    def error(self, problem: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": problem}}

    def read(self, body: dict[str, Any]) -> Asked:
        check(body.get("max_tokens"), "max_tokens: Field required")
        tools = [tool["name"] for tool in body.get("tools") or []]
        choice = body.get("tool_choice") or {}
        forced = choice.get("name") if choice.get("type") == "tool" else None
        check_tools(tools, forced)
        thinking = body.get("thinking") or {}
        if thinking.get("type") == "enabled":
            budget = thinking["budget_tokens"]
            check(budget >= 1024, "thinking.budget_tokens: must be at least 1024")
            check(body["max_tokens"] > budget, "max_tokens must be greater than the budget")
            check(body.get("temperature", 1) == 1, "temperature may only be 1 with thinking")
            check(
                choice.get("type") not in ("tool", "any"),
                "Thinking may not be enabled when tool_choice forces tool use.",
            )
        marked = json.dumps(body).count('"cache_control"')
        check(marked <= 4, f"A maximum of 4 blocks with cache_control may be provided: {marked}")
        messages = [{**m, "content": self._blocks(m["content"])} for m in body["messages"]]
        system = self._blocks(body.get("system") or "x")
        check(all(block["text"].strip() for block in system), "system: text must be non-empty")
        self._check_turns(messages, thinks=thinking.get("type") == "enabled")
        blocks = [block for message in messages for block in message["content"]]
        results = [text_in(block["content"]) for block in blocks if block["type"] == "tool_result"]
        last = messages[-1]["content"][-1]
        return Asked(
            system=text_in(system),
            first=messages[0]["content"][0]["text"],
            turns=sum(message["role"] == "assistant" for message in messages),
            results=results,
            last=last["text"] if last["type"] == "text" else text_in(last["content"]),
            tools=tools,
            choice=forced,
        )

    def _blocks(self, content: Any) -> list[dict[str, Any]]:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def _check_turns(self, messages: list[dict[str, Any]], *, thinks: bool) -> None:
        check(messages[0]["role"] == "user", "messages: first message must use the user role")
        check(messages[-1]["role"] == "user", "messages: the conversation must end with the user")
        waiting: set[str] = set()
        seen: set[str] = set()
        has_thought = False
        for at, message in enumerate(messages):
            check(at == 0 or message["role"] != messages[at - 1]["role"], "roles must alternate")
            blocks = message["content"]
            check(blocks, f"messages.{at}: all messages must have non-empty content")
            answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
            check(set(answered) <= waiting, f"messages.{at}: unexpected `tool_use_id` {answered}")
            check(
                waiting == set(answered),
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {waiting - set(answered)}",
            )
            kinds = [block["type"] for block in blocks]
            check(
                kinds[: len(answered)] == ["tool_result"] * len(answered),
                f"messages.{at}: tool_result blocks must come first",
            )
            waiting = set()
            if message["role"] == "user" and not answered:
                has_thought = False  # a new turn of the assistant begins
            for block in blocks:
                self._check_block(at, block)
                if block["type"] == "tool_use":
                    check(block["id"] not in seen, "messages: `tool_use` ids must be unique")
                    seen.add(block["id"])
                    waiting.add(block["id"])
            if message["role"] == "assistant":
                has_thought = has_thought or kinds[0] == "thinking"
                check(
                    not thinks or has_thought or "tool_use" not in kinds or not self._thought,
                    f"messages.{at}: Expected `thinking`, but found `tool_use`",
                )
        check(not waiting, f"`tool_use` ids without `tool_result` blocks: {waiting}")

    _thought = False

    def _check_block(self, at: int, block: dict[str, Any]) -> None:
        match block["type"]:
            case "text":
                text = block["text"]
                check(text, f"messages.{at}: text content blocks must be non-empty")
                check(text.strip(), f"messages.{at}: text must contain non-whitespace text")
            case "tool_use":
                check(isinstance(block["input"], dict), "tool_use.input: must be a dictionary")
                check(NAME.match(block["name"]), "tool_use.name: must match the pattern")
                check(re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]), "tool_use.id: pattern")
            case "thinking":
                check(
                    block["signature"] == f"signed-{block['thinking']}",
                    f"messages.{at}: Invalid `signature` in `thinking` block",
                )
                check("cache_control" not in block, "cache_control of a thinking block")

    def written(self, said: Said, number: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if said.thinks:
            self._thought = True
            thought = f"thought {number}"
            signature = f"signed-{thought}"
            content.append({"type": "thinking", "thinking": thought, "signature": signature})
        if said.text is not None:
            content.append({"type": "text", "text": said.text})
        for call in said.calls:
            try:
                given = json.loads(call.arguments)
            except ValueError:
                given = {}  # the arguments were cut off
            content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
        reason = "max_tokens" if said.is_cut else "tool_use" if said.calls else "end_turn"
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 10},
        }
