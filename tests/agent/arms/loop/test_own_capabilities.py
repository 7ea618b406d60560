"""Capabilities written from agent/CAPABILITIES.md alone."""

import re
import time
from typing import Any

import pytest

from agent.capabilities import (
    Agent,
    Arguments,
    Capability,
    Native,
    Refused,
    Retryable,
    Tool,
    ToolFailed,
    ToolResult,
    ToolSettings,
    Value,
)
from agent.errors import InfrastructureError
from agent.session.session import Session
from agent.workspaces import Workspace
from tests.agent.arms.loop.conftest import DONE, Attempts


class Words(Arguments):
    """Return the words of a file."""

    path: str


class Timed(Arguments):
    """Run a command several times, and say when."""

    command: str
    times: int = 2


async def words(workspace: Workspace, settings: ToolSettings, asked: Words) -> ToolResult:
    match asked.path:
        case "away":
            raise Retryable("the dictionary does not answer", after_s=0.01)
        case "gone":
            raise ToolFailed("the dictionary is gone")
        case "none":
            raise Refused("name a file that is there")
        case "value":
            raise ValueError("boom")
        case "fault":
            return len(workspace)  # type: ignore[arg-type,return-value]
        case "text":
            return "text"  # type: ignore[return-value]
    done = await workspace.run(f"cat {asked.path}", timeout_s=settings.command_timeout_s)
    return ToolResult(done.output)


async def timed(agent: Agent, session: Session, asked: Timed) -> ToolResult:
    if asked.times < 1:
        raise Refused("at least once")

    async def clock() -> float:
        return time.time()

    said = [str(await session.event("clock", {}, clock, float))]
    for _ in range(asked.times):
        said.append((await session.run(asked.command, timeout_s=10)).output)
    return ToolResult("\n".join(said))


OWN = Capability(
    "own",
    tools=(Tool("words", Words, words, value=Value("list[str]", lambda r: r.output.split())),),
    native=(Native("timed", Timed, timed, changes_files=True),),
    prompt=lambda agent: f"You are {agent.role}, and have words.",
)

HERE = f"{__name__}:OWN"


async def run(attempts: Attempts, *uses: tuple[str, dict[str, Any]]) -> Any:
    return await attempts.run({"loop": [list(uses), DONE]}, ["ptc", HERE])


async def test_its_tools_are_used_directly_and_by_programs(attempts: Attempts) -> None:
    """Values are data, several steps are one use, and a second run repeats a clock."""
    code = """
import asyncio
found, said = await asyncio.gather(words(path="calc.py"), timed(command="echo on", times=1))
try:
    await timed(command="", times=0)
except ValueError as error:
    print(error)
[found[:2], said.split()[1]]
"""
    uses = [("timed", {"command": "echo out", "times": 3}), ("run_ptc", {"code": code})]
    await run(attempts, *uses, ("timed", {"command": "", "times": 0}))
    first, program, refused = told = attempts.told()
    assert first.split()[1:] == ["out"] * 3
    assert program.startswith('value: [["def", "add(a,"], "on"]\nprinted:\nat least once\n')
    assert refused == "at least once"
    system = attempts.model.asked[0].messages[0]["content"]
    assert "You are loop, and have words." in system
    places = [place for place in attempts.places if "timed-1/" in place]
    assert places == ["work/timed-1/0 event", *(f"work/timed-1/{n} command" for n in (1, 2, 3))]
    assert attempts.session is not None
    before = attempts.session.steps
    await run(attempts, *uses)
    assert (attempts.model.asked, len(told)) == ([], 3)
    assert [s.result for s in attempts.session.steps if s.scope.startswith("work/timed")] == [
        s.result for s in before if s.scope.startswith("work/timed")
    ]


def using(by: str, path: str) -> tuple[str, dict[str, Any]]:
    code = f"await words(path={path!r})"
    return ("run_ptc", {"code": code}) if by == "program" else ("words", {"path": path})


@pytest.mark.parametrize("by", ["direct", pytest.param("program", marks=pytest.mark.full)])
async def test_a_reason_that_may_pass_is_infrastructure(attempts: Attempts, by: str) -> None:
    """It is so after three tries, also inside a program."""
    with pytest.raises(InfrastructureError, match="the dictionary does not answer"):
        await run(attempts, using(by, "away"))


@pytest.mark.parametrize("by", ["direct", pytest.param("program", marks=pytest.mark.full)])
async def test_a_tool_that_cannot_go_on_ends_the_attempt(attempts: Attempts, by: str) -> None:
    """The attempt gave up, and says why."""
    outcome = await run(attempts, using(by, "gone"))
    assert (outcome.status, outcome.detail) == ("gave_up", "the dictionary is gone")


async def test_an_error_of_a_value_goes_to_the_model(attempts: Attempts) -> None:
    """The model reads the tool, the file, the line and the error, also in a program."""
    await run(attempts, using("direct", "value"), using("program", "value"))
    for told in attempts.told():
        assert re.search(
            r"tool words failed at test_own_capabilities.py:\d+: ValueError: boom", told
        )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("fault", r"tool words failed at test_own_capabilities.py:\d+: TypeError: object of type"),
        ("text", "tool words returns str, but has to return ToolResult"),
    ],
)
async def test_a_fault_of_a_tool_ends_the_attempt(
    attempts: Attempts, path: str, reason: str
) -> None:
    """Every replay would meet it again, so it is not infrastructure."""
    outcome = await run(attempts, using("direct", path))
    assert outcome.status == "gave_up"
    assert re.match(reason, outcome.detail)
