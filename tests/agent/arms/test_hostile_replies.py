"""What a model wrote goes back to it as text, whatever it is, and every arm goes on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms import ARMS, ArmKind
from agent.arms.options import LoopOptions, MiniOptions
from agent.errors import ModelError
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.steps import Step
from agent.types import Outcome
from tests.agent.arms.conftest import SUBMISSION, TASK, Solver, make_repository
from tests.agent.attempts import begin, open_session
from tests.agent.workspaces_on_host import HostWorkspaces

COMMAND = "the command"
"""Stands for the name of the tool that takes one."""


def call(arguments: Any, name: Any = COMMAND, **more: Any) -> dict[str, Any]:
    """Return one call of a tool, as a model writes it."""
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **more,
    }


def run(command: Any) -> dict[str, Any]:
    return call(json.dumps({"command": command}))


VALUES: dict[str, Any] = {
    "a list": ["bash", "-lc", "ls"],
    "a number": 5,
    "null": None,
    "an object": {"a": "b"},
    "no text": "echo \ud800",
    "half of a character": "echo \udc80",
    "NUL": "echo \0 here",
    "control characters": "echo \x01\x1b[2J\x7f",
    "a megabyte": f": {'x' * 1_000_000}",
}

REPLIES: dict[str, dict[str, Any]] = {
    **{f"a command that is {name}": {"tool_calls": [run(each)]} for name, each in VALUES.items()},
    "arguments that are no text": {"tool_calls": [call({"command": "ls"})]},
    "arguments that are a number": {"tool_calls": [call(5)]},
    "no arguments": {"tool_calls": [call(None)]},
    "arguments that are null": {"tool_calls": [call("null")]},
    "arguments that are a list": {"tool_calls": [call('["ls"]')]},
    "arguments that are not JSON": {"tool_calls": [call('{"command": ')]},
    "arguments in a deep nest": {"tool_calls": [call('{"command": ' + "[" * 100_000)]},
    "arguments in a nest": {"tool_calls": [call('{"command": ' + "[" * 400 + "]" * 400 + "}")]},
    "a number of 5000 digits": {"tool_calls": [call('{"command": ' + "1" * 5000 + "}")]},
    "a key that is no text": {
        "tool_calls": [call('{"command": "ls", "\\ud800": 1, "\\u0000": 2}')]
    },
    "no id": {"tool_calls": [{"function": {"name": COMMAND, "arguments": '{"command": "ls"}'}}]},
    "an id that is a number": {"tool_calls": [{**run("ls"), "id": 7}]},
    "an id that is no text": {"tool_calls": [{**run("ls"), "id": "\ud800\0"}]},
    "the same id twice": {"tool_calls": [run("echo one"), run("echo two")]},
    "no function": {"tool_calls": [{"id": "a", "type": "function"}]},
    "a function that is text": {"tool_calls": [{**run("ls"), "function": "ls"}]},
    "no name": {"tool_calls": [call('{"command": "ls"}', None)]},
    "a name that is a list": {"tool_calls": [call('{"command": "ls"}', ["bash"])]},
    "a name that is no text": {"tool_calls": [call('{"command": "ls"}', "\ud800\0")]},
    "calls that are no list": {"tool_calls": "ls"},
    "calls that are an object": {"tool_calls": run("ls")},
    "calls that are a number": {"tool_calls": 5},
    "calls that are no objects": {"tool_calls": ["ls", None, 5, []]},
    "content that is a number": {"content": 5},
    "content in parts": {"content": [{"type": "text", "text": "hm"}, {"type": "odd"}, None, 5]},
    "content that is no text": {"content": "\ud800\0"},
    "a block that is no text": {
        "content": "```mswea_bash_command\necho \ud800\0\n```\n"
        '```json\n{"tool": "run_command", "arguments": {"command": "\\ud800"}}\n```'
    },
    "a block in a deep nest": {"content": "```json\n" + "[" * 100_000 + "\n```"},
    "nothing": {"content": None},
}

LARGE = "a command that is a megabyte"
"""The loop arm has no room for a second call after it."""

SMALL = [name for name in REPLIES if name != LARGE]
GROUPS = [*(SMALL[first::8] for first in range(8)), [LARGE]]
"""An attempt with all of them would be one whose model makes no progress."""


def limit_calls(arm: ArmKind, calls: int) -> Any:
    return MiniOptions(step_limit=calls) if arm == "mini" else LoopOptions(limits={"calls": calls})


class Hostile:
    """A model that gives odd replies, and after each asks for a command that does nothing."""

    def __init__(self, *replies: dict[str, Any], native_tools: bool) -> None:
        self.info = ModelInfo("hostile", "scripted", native_tools)
        self._replies = replies
        self.asked: list[ModelRequest] = []

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        names = [each["function"]["name"] for each in request.tools]
        tool = next((name for name in ("bash", "run_command") if name in names), "read")
        number, is_after = divmod(len(self.asked), 2)
        is_odd = number < len(self._replies) and not is_after
        message = _named(self._replies[number], tool) if is_odd else self._going_on(tool)
        # The session adds to the list of messages.
        self.asked.append(replace(request, messages=[*request.messages]))
        return ModelReply({"role": "assistant", "content": None, **message}, Usage(), "none", "it")

    def _going_on(self, tool: str) -> dict[str, Any]:
        command = f"true {len(self.asked)}"
        arguments = json.dumps({"command": command})
        if self.info.native_tools:
            return {"tool_calls": [{**call(arguments, tool), "id": f"call_{len(self.asked)}"}]}
        asked = f'{{"tool": "run_command", "arguments": {arguments}}}'
        return {"content": f"```mswea_bash_command\n{command}\n```\n```json\n{asked}\n```"}


def _named(written: Any, tool: str) -> Any:
    """Return a reply with the name of the tool in the place of its stand-in."""
    if isinstance(written, dict):
        return {key: _named(each, tool) for key, each in written.items()}
    if isinstance(written, list):
        return [_named(each, tool) for each in written]
    return tool if isinstance(written, str) and written == COMMAND else written


@pytest.mark.parametrize("native_tools", [True, False])
@pytest.mark.parametrize("arm", ["mini", "loop"])
@pytest.mark.parametrize("names", GROUPS)
async def test_odd_replies_are_answered_with_text(
    solve: Solver, arm: ArmKind, names: list[str], native_tools: bool
) -> None:
    """The next request answers each, and the attempt ends as one that is out of calls."""
    model = Hostile(*(REPLIES[name] for name in names), native_tools=native_tools)
    calls = 2 * len(names) + 1
    outcome, _ = await solve(model, arm=arm, options=limit_calls(arm, calls))
    assert (outcome.status, len(model.asked)) == ("out_of_steps", calls), outcome
    answers = dict(zip(names, model.asked[1::2], strict=True))
    assert [name for name, one in answers.items() if not one.messages[-1]["content"]] == []
    json.dumps(model.asked[-1].messages)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["ls"], "expected str, bytes or os.PathLike object, not list"),
        (None, "expected str, bytes or os.PathLike object, not NoneType"),
        ("echo \ud800", "'utf-8' codec can't encode character '\\ud800' in position 5"),
        ("echo \0", "embedded null byte"),
    ],
)
async def test_mini_says_what_mini_swe_agent_says(solve: Solver, command: Any, told: str) -> None:
    """The package runs commands with `subprocess`, and shows the model why it refused one."""
    from minisweagent.environments.local import LocalEnvironment

    model = Hostile({"tool_calls": [run(command)]}, native_tools=True)
    await solve(model, options=MiniOptions(step_limit=2))
    shown = model.asked[1].messages[-1]["content"]
    assert "An error occurred while executing the command" in shown
    assert told in shown
    if isinstance(command, str):  # without a container, `subprocess` does other things with a list
        assert told in LocalEnvironment().execute({"command": command})["exception_info"]


@pytest.mark.parametrize("command", [["bash", "-lc", "ls"], "echo \ud800"])
async def test_an_old_journal_with_such_a_reply_continues(tmp_path: Path, command: Any) -> None:
    """A reply on which an earlier release failed is replayed. Nothing is bought again."""
    journal, workspaces = begin(tmp_path), HostWorkspaces(make_repository)
    odd = {"role": "assistant", "content": None, **_named({"tool_calls": [run(command)]}, "bash")}

    async def solved(replies: list[Any]) -> tuple[Outcome, list[Step]]:
        spec = models.parse({"provider": "scripted", "replies": replies})
        model = models.build(spec, TASK, 0)
        async with open_session(journal, tmp_path, model, workspaces=workspaces) as session:
            return await ARMS["mini"].solve(TASK, session, MiniOptions()), session.steps

    with pytest.raises(ModelError, match="the script ended"):
        await solved([odd])
    assert [step.kind for step in journal.steps("a") if step.result] == ["model"]
    outcome, steps = await solved(["never", *({"command": each} for each in SUBMISSION)])
    assert outcome.status == "submitted"
    assert [step.replayed for step in steps if step.kind == "model"] == [True, False, False, False]
    journal.close()
