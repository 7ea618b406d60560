"""The simulated model on the loop: the same change by fewer calls where capabilities allow it."""

import json
from typing import Any

import pytest

from agent.models.protocol import ModelRequest
from agent.models.simulated.model import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from eval import instances

INSTANCE = instances.load(instances.BUNDLED)[0]
TASK = Task(INSTANCE.instance_id, INSTANCE.problem_statement, "HEAD", INSTANCE.patch)
FACTS = {
    "task": TASK.statement,
    "root": "/testbed",
    "network": "none",
    "command_timeout_s": 120.0,
    "test_timeout_s": 600.0,
}
DIRECT = ["read", "apply_patch", "run_command", "run_tests"]


async def calls(tools: list[str], skill: float, role: str = "loop") -> list[dict[str, Any]]:
    """Return the tools that a role calls until it answers. Each result is `ok`."""
    spec = SimulatedSpec(provider="simulated", skill=skill, exploration=3)
    model = SimulatedModel(spec, TASK, 1)
    offered = [{"type": "function", "function": {"name": n}} for n in (*tools, "answer")]
    told = "- reader: reads only."
    messages: list[dict[str, Any]] = [{"role": "system", "content": told}]
    found: list[dict[str, Any]] = []
    for number in range(40):
        request = ModelRequest(list(messages), offered, number=number, role=role, facts=FACTS)
        reply = await model.complete(request)
        messages.append(reply.message)
        for call in reply.message["tool_calls"]:
            found.append({"reply": number, **call["function"]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        if found[-1]["name"] == "answer":
            return found
    raise AssertionError("it does not answer")


def patched(called: list[dict[str, Any]]) -> str:
    """Return the patch that is applied by a direct call."""
    [call] = [each for each in called if each["name"] == "apply_patch"]
    return str(json.loads(call["arguments"])["patch"])


@pytest.mark.parametrize("skill", [0.0, 1.0])
async def test_the_change_is_the_same_with_any_capabilities(skill: float) -> None:
    """Programs and subagents cost fewer replies or other ones, and change the same."""
    direct = await calls(DIRECT, skill)
    programs = await calls([*DIRECT, "run_ptc"], skill)
    delegating = await calls([*DIRECT, "spawn", "merge"], skill)
    patch = patched(direct)
    assert (patch == TASK.reference_patch) == bool(skill)
    assert repr(patch) in json.loads(programs[1]["arguments"])["code"]
    assert patched(delegating) == patch
    assert programs[-1]["reply"] == 2 < direct[-1]["reply"]
    assert "spawn" in [each["name"] for each in delegating]


async def test_a_subagent_reads_and_reports() -> None:
    """A role of any name with the facts of the loop is a subagent."""
    assert [each["name"] for each in await calls(["read"], 1, "reader")] == ["read", "answer"]
