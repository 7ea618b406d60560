"""The strict servers reject the requests that the real ones reject."""

from typing import Any

import pytest

from tests.servers.strict import Anthropic, Chat, Dialect, Responses, Said

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
SYSTEM, USER = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}
TOOL = {"type": "function", "function": {"name": "read", "parameters": {}}}


def refused(strict: Dialect, body: dict[str, Any]) -> str:
    """Return the server's error message for a request, or '' if the request is accepted."""
    reply = strict(body)
    assert isinstance(reply.body, dict)
    return str(reply.body["error"]["message"]) if reply.status == 400 else ""


def chat(*messages: dict[str, Any], **body: Any) -> dict[str, Any]:
    return {"messages": [SYSTEM, USER, *messages], "tools": [TOOL], **body}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (chat(CALLED, RESULT), ""),
        (chat(CALLED, RESULT, USER, max_completion_tokens=9), ""),
        (chat({"role": "assistant", "content": None}), "expected a string, got null"),
        (chat({"role": "assistant", "content": None, "tool_calls": []}), "empty array"),
        (chat(RESULT), "must be a response to a preceeding message"),
        (chat(CALLED, USER), "did not have response messages"),
        (chat(CALLED), "did not have response messages"),
        (chat({**CALLED, "tool_calls": [CALL, CALL]}, RESULT), "Duplicate id"),
        (chat(max_tokens=9), "max_tokens"),
        (chat(temperature=0), "temperature"),
        (chat(tools=[{"type": "function", "function": {"name": "a b"}}]), "Invalid tool name"),
        (chat(tool_choice={"type": "function", "function": {"name": "x"}}), "Tool choice 'x'"),
        (chat({**USER, "mood": "good"}), "Unrecognized fields"),
        (
            chat({**CALLED, "tool_calls": [{**CALL, "function": {"name": "a", "arguments": "{"}}]}),
            "not valid JSON",
        ),
        (
            chat({**CALLED, "tool_calls": [{**CALL, "function": {"name": "!", "arguments": ""}}]}),
            "name of a tool call",
        ),
    ],
)
def test_chat_completions(body: dict[str, Any], words: str) -> None:
    """Chat completions check call and result pairs, names and parameters of reasoning models."""
    problem = refused(Chat(lambda asked: Said("ok"), reasons=True), body)
    assert words in problem
    assert bool(words) == bool(problem)


def told(role: str, kind: str = "input_text") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": "t"}]}


def call_item(call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}


def output_item(call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "r"}


THOUGHT = {"type": "reasoning", "id": "rs_1", "encrypted_content": "secret-rs_1"}


def items(*given: dict[str, Any], **body: Any) -> dict[str, Any]:
    return {"input": [told("user"), *given], "store": False, **body}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (items(THOUGHT, call_item(), output_item()), ""),
        (items(call_item("other"), output_item("other")), ""),
        (items(call_item(), output_item()), "without its required 'reasoning' item"),
        (items(THOUGHT, told("user")), "without its following item"),
        (items(output_item()), "No tool call found"),
        (items(call_item("other")), "No tool output found"),
        (items(call_item("other"), told("user"), output_item("other")), "No tool output found"),
        (
            items({**THOUGHT, "encrypted_content": None}, call_item(), output_item()),
            "not persisted",
        ),
        (items(told("assistant")), "Invalid value"),
        (items(max_tokens=5), "max_tokens"),
        (items(max_output_tokens=5), "max_output_tokens"),
        (items(temperature=0), "temperature"),
        (items(tool_choice={"type": "function", "name": "x"}), "Tool choice 'x'"),
    ],
)
def test_responses(body: dict[str, Any], words: str) -> None:
    """The Responses API checks calls, their outputs and the reasoning before them."""
    strict = Responses(lambda asked: Said("ok"), reasons=True)
    strict._reasoning_of["c1"] = "rs_1"
    problem = refused(strict, body)
    assert words in problem
    assert bool(words) == bool(problem)


USE = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
USED = {"type": "tool_result", "tool_use_id": "c1", "content": "r"}
THINKING = {"type": "thinking", "thinking": "t", "signature": "signed-t"}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def turns(*messages: Any, **body: Any) -> dict[str, Any]:
    """Return messages of the user and the assistant in turn."""
    roles = ["user", "assistant"] * len(messages)
    return {
        "max_tokens": 4096,
        "messages": [
            {"role": role, "content": content}
            for role, content in zip(roles, ["u", *messages], strict=False)
        ],
        **body,
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (turns([USE], [USED]), ""),
        (turns([THINKING, USE], [USED], **THINKS), ""),
        (turns(max_tokens=None), "max_tokens"),
        (turns("a"), "must end with the user"),
        ({"max_tokens": 9, "messages": [{"role": "assistant", "content": "a"}]}, "first message"),
        ({"max_tokens": 9, "messages": [USER, USER]}, "alternate"),
        (turns([USE], "no"), "without `tool_result` blocks"),
        (turns("a", [USED]), "unexpected `tool_use_id`"),
        (turns([USE], [{"type": "text", "text": "t"}, USED]), "must come first"),
        (turns([USE, USE], [USED]), "must be unique"),
        (turns([{"type": "text", "text": ""}], "u"), "must be non-empty"),
        (turns([{"type": "text", "text": " \n"}], "u"), "non-whitespace"),
        (turns([{**THINKING, "signature": "s"}, USE], [USED], **THINKS), "signature"),
        (turns([USE], [USED], **THINKS), "Expected `thinking`"),
        (turns(max_tokens=1024, **THINKS), "greater than the budget"),
        (turns(temperature=0, **THINKS), "temperature"),
        (turns(tool_choice={"type": "any"}, **THINKS), "forces tool use"),
        (turns(tool_choice={"type": "tool", "name": "x"}), "Tool choice 'x'"),
        (turns(system=[{"type": "text", "text": "s", "cache_control": {}}] * 5), "maximum of 4"),
        (turns([{**USE, "input": []}], [USED]), "must be a dictionary"),
    ],
)
def test_messages(body: dict[str, Any], words: str) -> None:
    """Anthropic's API checks turns, tool results, signatures of thinking and cache markers."""
    strict = Anthropic(lambda asked: Said("ok"))
    strict._thought = True
    problem = refused(strict, body)
    assert words in problem
    assert bool(words) == bool(problem)
