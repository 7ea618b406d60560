"""A function of another package as an arm."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from agent.arms import python
from agent.arms.options import PythonOptions
from agent.errors import InvalidSpec
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.arms import PythonArm
from tests.agent.arms.conftest import Solver

SOURCE = """
from agent.models import ModelRequest
from agent.types import Outcome


async def solve(task, session, options):
    reply = await session.call(ModelRequest([{"role": "user", "content": task.statement}]))
    await session.run(options.settings["command"], timeout_s=10)
    return Outcome("submitted", await session.diff(), reply.message["content"])


async def wrong(task, session, options):
    return "a patch"


number = 3
"""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_agents.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_agents", raising=False)


def options(function: str) -> PythonOptions:
    return PythonOptions(function=function, settings={"command": "echo hello >greeting.txt"})


async def test_a_function_solves_the_task(solve: Solver) -> None:
    model = {"provider": "scripted", "replies": ["I say hello."]}
    outcome, session = await solve(model, arm="python", options=options("own_agents:solve"))
    assert outcome.detail == "I say hello."
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    assert [step.kind for step in session.steps] == ["model", "command", "action"]


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("own_agents:missing", "has no attribute 'missing'"),
        ("no_such_package:solve", "No module named"),
        ("own_agents:number", "is no function"),
        ("own_agents", "package.module:function"),
    ],
)
def test_a_missing_function_is_one_line(name: str, because: str) -> None:
    with pytest.raises(InvalidSpec, match=because):
        python.load(name)


async def test_a_function_has_to_return_an_outcome(solve: Solver) -> None:
    model = {"provider": "scripted", "replies": ["x"]}
    with pytest.raises(InvalidSpec, match="returns str, not an Outcome"):
        await solve(model, arm="python", options=options("own_agents:wrong"))


def declared(agent: str) -> declaration.Experiment:
    arm = {"name": "own", "agent": agent, "options": {"time_limit_s": 9, "tries": 2}}
    model = {"provider": "scripted", "replies": []}
    return declaration.parse({"name": "x", "arms": [arm], "model": model}, "x.yaml")


def test_an_agent_may_be_a_function() -> None:
    """Its options are its settings, and the record of the declaration can be read again."""
    experiment = declared("own_agents:solve")
    [arm] = experiment.arms
    assert isinstance(arm, PythonArm)
    assert arm.options.function == "own_agents:solve"
    assert (arm.options.time_limit_s, arm.options.settings) == (9, {"tries": 2})
    assert declaration.from_record(experiment.model_dump_json()) == experiment


def test_an_agent_may_be_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("swift", "own_agents:solve", python.GROUP)
    monkeypatch.setattr(
        python, "entry_points", lambda **wanted: EntryPoints([point]).select(**wanted)
    )
    [arm] = declared("swift").arms
    assert isinstance(arm, PythonArm)
    assert python.load(arm.options.function).__name__ == "solve"


def test_an_unknown_agent_is_one_line() -> None:
    with pytest.raises(UsageError, match="'nobody'"):
        declared("nobody")
