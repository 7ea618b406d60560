"""Stand-ins use the shell tool of a program, whatever it is called."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.models.dialects import answering, chat_of
from agent.models.protocol import Dialect, Foreign, ModelReply, ModelRequest, Usage
from agent.models.recorded import ScriptedModel
from agent.models.spec import ScriptedSpec

TEXT: dict[str, Any] = {"type": "string"}


def tool(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


@pytest.mark.parametrize(
    ("offered", "arguments"),
    [
        (tool("Bash", ["command"], command=TEXT), {"command": "ls"}),
        (tool("exec_command", ["cmd"], cmd=TEXT), {"cmd": "ls"}),
        (
            tool("shell", ["command"], command={"type": "array", "items": TEXT}),
            {"command": ["bash", "-lc", "ls"]},
        ),
        (
            tool("run_commands", ["commands"], commands={"type": "array", "items": TEXT}),
            {"commands": ["ls"]},
        ),
        (
            tool("execute_bash", ["command", "why"], command=TEXT, why=TEXT),
            {"command": "ls", "why": "Run a command."},
        ),
        (
            tool(
                "terminal", ["command", "risk"], command=TEXT, risk={**TEXT, "enum": ["LOW", "X"]}
            ),
            {"command": "ls", "risk": "LOW"},
        ),
    ],
    ids=lambda value: value["function"]["name"] if "function" in value else "",
)
async def test_a_stand_in_calls_the_programs_own_shell(
    offered: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """All required arguments are given, with a value that the schema allows."""
    look = tool("read_file", ["path"], path=TEXT)
    body = {"messages": [{"role": "user", "content": "Look."}], "tools": [look, offered]}
    foreign = Foreign("chat", body, {})
    spec = ScriptedSpec(provider="scripted", replies=[{"command": "ls"}])
    model = answering(ScriptedModel(spec), foreign)
    reply = await model.complete(ModelRequest([], foreign=foreign))
    assert reply.foreign is not None
    [call] = reply.foreign["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == offered["function"]["name"]
    assert json.loads(call["function"]["arguments"]) == arguments


class _Silent(ScriptedModel):
    """A model whose provider reports no number of tokens."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        usage = Usage(None, None, None, None, None, None)
        return replace(await super().complete(request), usage=usage)


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "gemini"])
async def test_a_program_gets_an_estimate_of_unknown_tokens(dialect: Dialect) -> None:
    """Programs measure their window by these numbers. What is recorded stays unknown."""
    said = [{"role": "user", "content": "Look. " * 1000}]
    body = {"input": said} if dialect == "responses" else {"messages": said, "max_tokens": 100}
    if dialect == "gemini":
        body = {"contents": [{"parts": [{"text": said[0]["content"]}]}]}
    foreign = Foreign(dialect, {**body, "model": "any"}, {})
    model = answering(_Silent(ScriptedSpec(provider="scripted", replies=["Done. " * 100])), foreign)
    reply = await model.complete(ModelRequest([], foreign=foreign))
    assert reply.usage == Usage(None, None, None, None, None, None)
    assert reply.foreign is not None
    if dialect == "gemini":
        usage = reply.foreign["usageMetadata"]
        assert (usage["promptTokenCount"], usage["candidatesTokenCount"]) == (1500, 150)
        return
    usage = reply.foreign["usage"]
    prompt, output = ("prompt", "completion") if dialect == "chat" else ("input", "output")
    assert (usage[f"{prompt}_tokens"], usage[f"{output}_tokens"]) == (1500, 150)


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"thinkingLevel": "HIGH"}, "high"),
        ({"thinkingBudget": 1024}, "low"),
        ({"thinkingBudget": 24_576}, "high"),
        ({"thinkingBudget": -1}, None),
        ({}, None),
    ],
)
def test_a_budget_of_thinking_becomes_an_effort(
    thinking: dict[str, object], effort: str | None
) -> None:
    body: dict[str, Any] = {"contents": [{"parts": [{"text": "Look."}]}], "model": "any"}
    body["generationConfig"] = {"thinkingConfig": thinking}
    assert chat_of(Foreign("gemini", body, {}), "gpt-5-mini").reasoning_effort == effort
