"""The simulated model on the loop: the same change by fewer calls where capabilities allow it."""

import json
from typing import Any

import pytest

from agent.arms.loop.arm import LoopPlan
from agent.conversation.protocols import NativeTools
from agent.models.protocol import ModelRequest
from agent.models.simulated.loop import find_related_tests
from agent.models.simulated.model import SimulatedModel
from agent.models.simulated.reference import Reference
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
    """Programs, subagents and notebooks cost other replies, and change the same."""
    direct = await calls(DIRECT, skill)
    programs = await calls([*DIRECT, "run_ptc"], skill)
    delegating = await calls([*DIRECT, "spawn", "merge"], skill)
    noting = await calls([*DIRECT, "cell_run", "cell_replay"], skill)
    patch = patched(direct)
    assert (patch == TASK.reference_patch) == bool(skill)
    assert repr(patch) in json.loads(programs[1]["arguments"])["code"]
    assert patched(delegating) == patched(noting) == patch
    names = [each["name"] for each in noting]
    assert names.index("cell_run") < names.index("apply_patch") < names.index("cell_replay")
    assert programs[-1]["reply"] == 2 < direct[-1]["reply"]
    assert "spawn" in [each["name"] for each in delegating]


async def test_a_subagent_reads_and_reports() -> None:
    """A role of any name with the facts of the loop is a subagent."""
    assert [each["name"] for each in await calls(["read"], 1, "reader")] == ["read", "answer"]


async def asked(scope: str, *offered: str, system: str = "", **facts: Any) -> dict[str, Any]:
    """Return the reply of the agent after it has done everything that it does."""
    model = SimulatedModel(SimulatedSpec(provider="simulated", skill=1), TASK, 1)
    done = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [{"role": "assistant", "tool_calls": [done]} for _ in range(40)]
    tools = [{"type": "function", "function": {"name": name}} for name in offered]
    told = [{"role": "system", "content": system}, *messages]
    request = ModelRequest(told, tools, role="loop", facts=FACTS | facts, scope=scope)
    return (await model.complete(request)).message


async def test_it_speaks_in_a_chat_and_plans_where_a_plan_is_wanted() -> None:
    """A chat has no answer as a tool. With an approved plan it works as without one."""
    said = await asked("work", *DIRECT, system=NativeTools([], is_chat=True).instructions)
    assert said == {"role": "assistant", "content": "The code does what the task says."}
    [call] = (await asked("plan", "read", "answer"))["tool_calls"]
    LoopPlan.model_validate_json(call["function"]["arguments"])
    planned = await asked("work", *DIRECT, "answer", plan={}, approved_with="")
    assert planned["tool_calls"][0]["function"]["name"] == "answer"


def test_the_value_of_a_program_names_the_tests() -> None:
    """A listing inside JSON has its line ends escaped."""
    told = 'value: [[{"output": "README\\ntests/test_filters.py\\n", "exit_code": 0}], [9]]'
    reference = Reference(TASK)
    tests = find_related_tests(reference, ("tests/test_filters.py",))
    assert find_related_tests(reference, (told,)) == tests != []
