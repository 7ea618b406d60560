"""The three faults: what each does to an attempt, and what can be seen of it."""

import asyncio
import json
import os
import tempfile
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.journal import Account, Journal, RecordedStep, Tenure
from eval import instances
from eval.types import Instance
from flows.experiments import declaration
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability.survival.keeping import Worked, kept_going
from tests.durability.survival.model_api import ModelApi

ROOT = Path(__file__).resolve().parents[3]

_LOOK_S = 0.02
"""Interval between looks at the journal or at the model API."""

_SLOW_S, _FAILURES, _BROKEN_WORKERS = 3, 3, 2

TOOL = '''\
"""A tool with a bug, which is fixed while the attempt waits."""

from agent.capabilities import Arguments, Capability, Tool, ToolResult, ToolSettings
from agent.workspaces import Workspace


class Average(Arguments):
    """Return the average of the numbers in a file."""

    path: str


async def average(workspace: Workspace, settings: ToolSettings, asked: Average) -> ToolResult:
    done = await workspace.run(f"cat {asked.path}", timeout_s=60)
    numbers = [float(word) for word in done.output.split()]
    return ToolResult(str(sum(numbers) / BUG))


AVERAGE = Capability("average", tools=(Tool("average", Average, average),))
'''
_MODULE = "durabench_demo_tool"
_WITH_BUG, _FIXED = "(len(numbers) - 3)", "len(numbers)"


@dataclass(frozen=True)
class Look:
    """The record of the attempt at one moment."""

    outcome: str | None
    steps: list[RecordedStep]

    @property
    def results(self) -> dict[tuple[str, int], tuple[str, bytes]]:
        """Digest and result of each step that has a result, by its place."""
        done = (step for step in self.steps if step.result is not None)
        return {(step.scope, step.seq): (step.digest, step.result or b"") for step in done}

    @property
    def calls(self) -> int:
        """Number of answered model calls."""
        return sum(step.kind == "model" and step.result is not None for step in self.steps)


@dataclass
class Scene:
    """An attempt during a fault."""

    journal: Journal
    experiment: str
    api: ModelApi
    tool: Path
    during: Look | None = None
    """The record during the fault."""

    @property
    def attempt_id(self) -> str | None:
        """Id of the attempt; None before the first worker has declared it."""
        found = self.journal.progress(self.experiment)
        return found[0].attempt.attempt_id if found else None

    def look(self) -> Look:
        """Return what is on record now."""
        attempt_id = self.attempt_id
        if attempt_id is None:
            return Look(None, [])
        return Look(self.journal.outcome(attempt_id), self.journal.steps(attempt_id))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. The wait is cancelled when the worker ends."""
        while not condition():
            await asyncio.sleep(_LOOK_S)


class Fault:
    """A fault. By default, nothing is done to the attempt."""

    tells: str
    replies: Sequence[dict[str, Any]]
    capabilities: Sequence[str] = ("files", "shell")
    failing_turn: int | None = None
    """The reply before which the model API fails."""

    async def while_working(self, scene: Scene, worker: Process, number: int) -> None:
        """Act while a worker runs."""

    def after_failure(self, scene: Scene, number: int) -> None:
        """Act after a worker failed, before the wait for the next one."""


def _calls(tool: str, **arguments: object) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def _answer(summary: str) -> dict[str, Any]:
    return _calls("answer", summary=summary, status="done")


class WorkerKilled(Fault):
    """SIGKILL while a tool runs."""

    tells = "A worker is killed with SIGKILL in the middle of a turn. Another one continues."
    capabilities = ("files", "tests.agent.arms.loop.faults:FAULTS")
    replies = (
        _calls("write", path="notes.txt", content="before the kill\n"),
        _calls("slow", seconds=_SLOW_S),
        _calls("read", path="notes.txt"),
        _answer("the notes are there"),
    )

    async def while_working(self, scene: Scene, worker: Process, number: int) -> None:
        """Kill the first worker as soon as its second reply, a slow tool, is on record."""
        if number == 1:
            await scene.until(lambda: scene.look().calls == 2)
            worker.kill()


class ModelAway(Fault):
    """Three failures of the model API in a row."""

    tells = "The model API fails three times in a row. The call is tried again, and nothing else."
    failing_turn = 1
    replies = (
        _calls("write", path="notes.txt", content="before the failures\n"),
        _calls("run_command", command="wc -l notes.txt"),
        _answer("one line was written"),
    )

    async def while_working(self, scene: Scene, worker: Process, number: int) -> None:
        """Look at the journal while the API fails."""
        await scene.until(lambda: len(scene.api.failed) == _FAILURES)
        scene.during = scene.look()


class ToolBug(Fault):
    """A tool that raises until its code is fixed."""

    tells = "A tool has a bug. It is fixed while the attempt waits, and the attempt continues."
    capabilities = ("files", f"{_MODULE}:AVERAGE")
    replies = (
        _calls("write", path="numbers.txt", content="3\n4\n5\n"),
        _calls("average", path="numbers.txt"),
        _answer("the average is 4"),
    )

    def after_failure(self, scene: Scene, number: int) -> None:
        """Fix the tool after its second failure."""
        if number == _BROKEN_WORKERS:
            scene.tool.write_text(TOOL.replace("BUG", _FIXED))


FAULTS: dict[str, Fault] = {
    "worker-killed": WorkerKilled(),
    "model-away": ModelAway(),
    "tool-bug": ToolBug(),
}


@dataclass(frozen=True)
class Survived:
    """An attempt that has survived a fault."""

    attempt_id: str
    during: Look
    after: Look
    workers: list[Worked]
    tenures: list[Tenure]
    account: Account
    api: ModelApi = field(repr=False)


def instance() -> Instance:
    """Return the bundled instance that faults happen to."""
    return instances.load(instances.BUNDLED)[0]


async def survive(name: str, lake_path: str, environment: str) -> Survived:
    """Let a fault happen to a new attempt, and keep the attempt going to its end.

    Raises:
        InfrastructureError: the workers failed for another reason.
    """
    fault = FAULTS[name]
    lake = Lake.open(lake_path)
    with (
        tempfile.TemporaryDirectory(prefix="durabench-fault-") as folder,
        ModelApi(fault.replies, failing_turn=fault.failing_turn, failures=_FAILURES) as api,
    ):
        tool = Path(folder) / f"{_MODULE}.py"
        tool.write_text(TOOL.replace("BUG", _WITH_BUG))
        declared = _declared(name, fault, api.url, environment)
        scene = Scene(open_journal(lake), declared.name, api, tool)
        file = Path(folder) / "experiment.yaml"
        file.write_text(json.dumps(declared.model_dump(mode="json")))  # which is YAML, too
        workers = await _kept_going(fault, scene, [str(file), str(lake.root)], folder)
    attempt_id = scene.attempt_id
    assert attempt_id is not None, "a worker has ended it"
    assert scene.during is not None, "the fault has happened"
    journal = scene.journal
    return Survived(
        attempt_id,
        scene.during,
        scene.look(),
        workers,
        journal.tenures(attempt_id),
        journal.account(attempt_id),
        api,
    )


async def _kept_going(
    fault: Fault, scene: Scene, arguments: Sequence[str], folder: str
) -> list[Worked]:
    def failed(number: int, worker: Worked) -> None:
        scene.during = scene.during or scene.look()
        fault.after_failure(scene, number)

    given = {
        "PYTHONPATH": os.pathsep.join([folder, str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OPENAI_API_KEY": "none",  # the API is ours, and LiteLLM wants one
    }
    return await kept_going(
        arguments,
        given,
        lambda worker, number: fault.while_working(scene, worker, number),
        failed,
    )


def _declared(name: str, fault: Fault, url: str, environment: str) -> declaration.Experiment:
    """Return the experiment of one cell that a fault happens to."""
    model = {
        "name": "openai/demo",
        "api_base": url,
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 4e-6,
    }
    arm = {
        "name": "loop",
        "agent": "loop",
        "model": model,
        "options": {"capabilities": list(fault.capabilities)},
    }
    content = {
        "name": f"fault-{name}",
        "environment": environment,
        "select": {"ids": [instance().instance_id]},
        "arms": [arm],
    }
    return declaration.parse(content, name).afresh()
