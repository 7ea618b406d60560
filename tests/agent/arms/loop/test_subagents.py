"""Subagents: their scopes, their limits, their failures, and merging what they changed."""

import json
from typing import Any

import pytest

from tests.agent.arms.durable.conftest import FIX, SPOIL, Said
from tests.agent.arms.loop.conftest import DONE, Attempts

KINDS = {
    "scout": {"capabilities": ["look", "subagents"]},
    "worker": {"capabilities": ["files"], "writes": True, "rounds": 3},
}
LOOK: Said = [("read", {"path": "calc.py"})]


def spawn(*kinds: str) -> Said:
    return [("spawn", {"agent": kind, "task": f"task of {kind}"}) for kind in kinds]


async def solve(attempts: Attempts, scripts: dict[str, Any], **limits: Any) -> Any:
    tools = ["files", "subagents", "ptc"]
    return await attempts.run(scripts, tools, subagents={"kinds": KINDS, **limits})


async def test_a_subagent_reads_in_the_workspace_of_its_parent(attempts: Attempts) -> None:
    """A child has scopes and a role of its own. It sees what the parent changed before."""
    scripts = {"loop": [[FIX, *spawn("scout", "scout")], DONE], "scout": [LOOK, DONE]}
    outcome = await solve(attempts, scripts)
    assert outcome.status == "submitted"
    reports = [json.loads(told) for told in attempts.told()[1:]]
    assert reports == [{"status": "done", "summary": "did it", "changed": [], "ref": ""}] * 2
    kinds = ["0 event", "work/0 model", "work/1 action", "work/2 model"]
    for number in (1, 2):
        found = [place for place in attempts.places if f"spawn-{number}" in place]
        assert found == [f"work/spawn-{number}/{each}" for each in kinds]
    scouts = [request for request in attempts.model.asked if request.role == "scout"]
    assert all("a + b" in request.messages[-1]["content"] for request in scouts[-2:])


async def test_the_change_of_a_subagent_is_merged_by_its_ref(attempts: Attempts) -> None:
    """A child that writes works on a copy, whose change is merged on request."""
    scripts: dict[str, Any] = {
        "loop": [
            [("write", {"path": "own.py", "content": "x = 1\n"}), *spawn("worker")],
            LOOK,
            [("merge", {"ref": "work/spawn-1"}), ("merge", {"ref": "missing"})],
            DONE,
        ],
        "worker": [[FIX], DONE],
    }
    outcome = await solve(attempts, scripts)
    assert ("+x = 1" in outcome.patch, "+    return a + b" in outcome.patch) == (True, True)
    [_, report] = attempts.told(-3)[:2]
    assert json.loads(report)["changed"] == ["calc.py"]
    assert "a - b" in attempts.told(-2)[-1]
    assert "the refs are: work/spawn-1" in attempts.told()[-1]
    again = await solve(attempts, {})
    assert (again.patch, attempts.model.asked) == (outcome.patch, [])


@pytest.mark.full
async def test_a_conflict_changes_nothing_and_names_the_paths(attempts: Attempts) -> None:
    """A change that does not fit any more is refused as a whole."""
    scripts = {
        "loop": [spawn("worker"), [SPOIL], [("merge", {"ref": "work/spawn-1"})], DONE],
        "worker": [[FIX, ("write", {"path": "new.py", "content": "y = 2\n"})], DONE],
    }
    outcome = await solve(attempts, scripts)
    told = attempts.told()[-1]
    assert ("because of a conflict" in told, "calc.py" in told) == (True, True)
    assert ("a * b" in outcome.patch, "new.py" in outcome.patch) == (True, False)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"depth": 3}, "may be nested 3 deep"),
        ({"depth": 9, "in_all": 4}, "all 4 subagents have been used"),
    ],
)
async def test_a_subagent_that_recurses_for_ever_is_stopped(
    attempts: Attempts, limits: dict[str, int], said: str
) -> None:
    """A subagent that reaches a limit on depth or number learns so, and then answers."""
    scripts = {"loop": [spawn("scout"), DONE], "scout": [spawn("scout"), DONE]}
    outcome = await solve(attempts, scripts, **limits)
    assert outcome.status == "submitted"
    refusals = [r for r in attempts.model.asked if said in str(r.messages[-1]["content"])]
    assert len(refusals) == 1


@pytest.mark.parametrize("is_program", [False, True])
async def test_subagents_that_begin_at_the_same_time_are_limited(
    attempts: Attempts, is_program: bool
) -> None:
    """No more begin than are allowed in all, also if one reply or one program asks for many."""
    code = """
import asyncio
async def asks():
    try:
        return (await spawn(agent="scout", task="look"))["status"]
    except ValueError:
        return "refused"
sorted(await asyncio.gather(*[asks() for _ in range(6)]))
"""
    asked: Said = [("run_ptc", {"code": code})] if is_program else spawn(*["scout"] * 6)
    await solve(attempts, {"loop": [asked, DONE], "scout": [DONE]}, in_all=4)
    assert sum(request.role == "scout" for request in attempts.model.asked) == 4
    told = "".join(attempts.told())
    assert told.count("refused" if is_program else "all 4 subagents have been used") == 2
