"""Stand-ins use the shell tool of a program, whatever it is called."""

import json
from typing import Any

import pytest

from agent.models.protocol import Foreign, ModelRequest
from agent.models.scripted import ScriptedModel
from agent.models.spec import ScriptedSpec
from agent.models.translated import answering

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
