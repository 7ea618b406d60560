"""The simulated model as mini-swe-agent's: its skill, its trajectory, and its simulated costs."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InvalidSpec
from agent.models.protocol import Message, ModelReply, ModelRequest, Usage
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from tests.agent.models.patch_cases import KINDS, Case, git, make, tree_after

BASH: dict[str, Any] = {"type": "function", "function": {"name": "bash", "parameters": {}}}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"
PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def model(patch: str = PATCH, *, seed: int = 1, name: str = "demo__one", **spec: Any) -> Any:
    fields = {"provider": "simulated", "skill": 1.0, **spec}
    task = Task(name, "It is broken.", "0" * 40, patch)
    return SimulatedModel(SimulatedSpec.model_validate(fields), task, seed)


def command_of(message: Message) -> str | None:
    """Return the command of a reply in either protocol, or None."""
    if message.get("tool_calls"):
        return str(json.loads(message["tool_calls"][0]["function"]["arguments"])["command"])
    block = re.search(r"```mswea_bash_command\n(.*)\n```", message["content"] or "", re.DOTALL)
    return block.group(1) if block else None


def work(subject: Any, repo: Path, *, native: bool = True) -> tuple[str, list[ModelReply]]:
    """Run every command of a model in a repository. Return the submission and the replies."""
    messages: list[Message] = [{"role": "user", "content": "Fix it."}]
    replies: list[ModelReply] = []
    while len(replies) < 60:
        request = ModelRequest(list(messages), [BASH] if native else [])
        reply = asyncio.run(subject.complete(request))
        replies.append(reply)
        command = command_of(reply.message)
        if command is None:
            messages.append({"role": "user", "content": "No action found."})
            continue
        run = subprocess.run(["bash", "-c", command], cwd=repo, capture_output=True)
        assert run.returncode == 0, (command, run.stderr.decode())
        if command == SUBMIT:
            return run.stdout.split(b"\n", 1)[1].decode("utf-8", "surrogateescape"), replies
        role = {"role": "tool", "tool_call_id": "x"} if native else {"role": "user"}
        messages += [reply.message, {**role, "content": run.stdout.decode(errors="replace")}]
    raise AssertionError("the model never submitted")


def reset(repo: Path) -> None:
    git(repo, "reset", "-q", "--hard")
    git(repo, "clean", "-fdxq")


@pytest.mark.parametrize("case", KINDS)
def test_a_right_attempt_submits_the_reference_change(case: Case, tmp_path: Path) -> None:
    """In either protocol, the submission has the effect of the reference patch."""
    repo = tmp_path / "repo"
    patch = make(case, repo)
    expected = tree_after(repo, patch)
    for native in (True, False):
        submission, _ = work(model(patch), repo, native=native)
        reset(repo)
        assert tree_after(repo, submission) == expected


def test_usage_models_a_prompt_cache() -> None:
    """Each call reads the tools and messages of the request before, and writes the rest."""
    tools = [{**BASH, "description": "x" * 8000}]
    opening = [{"role": "user", "content": "y" * 8000}]
    subject = model()
    first = asyncio.run(subject.complete(ModelRequest(opening, tools)))
    assert first.usage.cache_write_tokens == first.usage.input_tokens > 4000
    longer = [*opening, first.message, {"role": "tool", "content": "z" * 400}]
    second = asyncio.run(subject.complete(ModelRequest(longer, tools))).usage
    assert second.cache_read_tokens == first.usage.input_tokens
    assert 100 < second.cache_write_tokens < 300
    total = sum((first.usage, second), Usage())
    assert total.cost_usd is not None
    assert 0 < total.cost_usd < 1


def commands(subject: Any, scope: str = "") -> list[str]:
    """Return the commands of an attempt without running them."""
    talk: list[Message] = [{"role": "user", "content": "Fix it."}]
    texts = [""]
    while texts[-1] != SUBMIT:
        request = ModelRequest(list(talk), [BASH], scope=scope)
        message = asyncio.run(subject.complete(request)).message
        texts.append(str(command_of(message)))
        talk += [message, {"role": "tool", "content": ""}]
    return texts[1:]


def test_a_task_without_reference_patch_is_refused() -> None:
    """Without a reference patch no attempt could be right, so the error says that one is needed."""
    with pytest.raises(InvalidSpec, match="reference patch"):
        model("")
