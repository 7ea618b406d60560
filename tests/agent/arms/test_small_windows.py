"""Long attempts in small context windows, on a server that refuses what does not fit."""

import json
from typing import Any

import pytest

from agent import models
from agent.arms import ARMS, ArmKind
from agent.runners import TestRunner
from agent.session.session import Session
from agent.types import Task
from tests.agent.arms.durable.conftest import FILES, FIX, QUICK
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers import openai_server as api

pytestmark = [pytest.mark.slow]

TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "", TestRunner(QUICK))
LONG = "".join(f"line {number} of a long file\n" for number in range(1_000))
CHARS_PER_TOKEN = 3.3
"""Of code, by the tokenizers of small models."""

READS = 40
"""Files that each conversation with tools reads."""

ANSWERS: dict[str, Any] = {
    "subtasks": [{"title": "fix", "instructions": "Do it."}],
    "files": ["calc.py"],
    "summary": "It subtracted.",
    "status": "done",
    "confidence": "high",
    "no_test_because": "it is trivial",
}
OPTIONS: dict[ArmKind, dict[str, Any]] = {
    "loop": {"capabilities": ["files", "symbols", "shell", "tests"]},
    "durable": {"profile": {"test_command": QUICK, "approaches": 0, "repairs": 0}},
    "staged": {"rounds": {"explore": 50, "build": 50}},
}


class Small:
    """Refuses each request that does not fit into its window.

    If the client knows the window, the output has to fit as well.
    """

    def __init__(self, window: int, *, is_known: bool) -> None:
        self.window, self.is_known = window, is_known
        self.refused, self.reads = 0, 0

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        size = int(len(json.dumps([body["messages"], body["tools"]])) / CHARS_PER_TOKEN)
        if size + (body["max_tokens"] if self.is_known else 0) > self.window:
            self.refused += 1
            words = f"the request exceeds the available context size ({self.window} tokens)"
            return api.error(400, words)
        usage = {"prompt_tokens": size, "completion_tokens": 50, "total_tokens": size + 50}
        name, arguments = self._choose(body)
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self.reads}", "type": "function", "function": function}
        message = {"role": "assistant", "content": "I look at it.", "tool_calls": [call]}
        return api.completion(message, usage=usage, finish_reason="tool_calls")

    def _choose(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
        self.reads += 1
        turn = self.reads % (READS + 2)
        if 0 < turn <= READS and "subtasks" not in tools["answer"]["properties"]:
            return "read", {"path": "long.txt", "start": self.reads}
        if turn == READS + 1 and "edit" in tools:
            return FIX
        fields = tools["answer"]["properties"]
        return "answer", {name: value for name, value in ANSWERS.items() if name in fields}


@pytest.mark.parametrize(
    ("window", "is_known"),
    [
        (4_096, True),
        (8_192, True),
        (8_192, False),
        (32_768, True),
    ],
)
@pytest.mark.parametrize("arm", list(OPTIONS))
async def test_an_arm_makes_many_calls_in_a_small_window(
    arm: ArmKind, window: int, is_known: bool
) -> None:
    """Old results are shortened and old replies left out, so that its tools stay to the end."""
    script = Small(window, is_known=is_known)
    with api.OpenAIServer(script) as server:
        spec = {"provider": "litellm", "name": "openai/local", "api_base": server.url}
        declared = {**spec, "context_tokens": window} if is_known else spec
        async with Session.start(
            attempt_id="a",
            models={"": models.build(models.parse(declared), TASK, 0)},
            workspaces=HostWorkspaces(with_files({**FILES, "long.txt": LONG})),
        ) as session:
            options = ARMS[arm].options.model_validate(OPTIONS[arm])
            outcome = await ARMS[arm].solve(TASK, session, options)
    assert outcome.status == "submitted"
    assert "+    return a + b" in outcome.patch
    assert script.reads > READS
    assert script.refused == 0 if is_known else 0 < script.refused < 10
    assert not any("last reply" in str(request["messages"]) for request in server.requests)
