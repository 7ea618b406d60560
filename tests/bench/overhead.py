"""The time of an attempt that neither the model nor a command takes: lean against mini.

Both arms solve the same bundled tasks on a simulated model that is right at once, with a journal,
in host workspaces and in containers. The time of the model and of every command and test run is
subtracted. The rest is the harness: opening workspaces, looking at work trees, editing
files, checkpoints, the journal, and whatever the arm computes.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.arms import ARMS, ArmKind
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import ModelReply, ModelRequest
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Task
from agent.workspaces import Environment, Workspace
from eval import images, instances
from eval.types import Instance
from flows.experiments.cells import Place, runner_of_instance
from flows.experiments.workspaces import AttemptWorkspaces
from tests.bench.timing import Bound

TASKS = 3
LIMIT = 2.0
MODEL = {"provider": "simulated", "skill": 1.0, "wrong_anchors": 0, "overspecified_anchors": 0}


@dataclass
class Stopwatch:
    """Seconds outside of the harness."""

    model_s: float = 0.0
    commands_s: float = 0.0


@dataclass(frozen=True)
class TimedModel:
    """A model whose time is taken."""

    model: SimulatedModel
    watch: Stopwatch

    @property
    def info(self) -> Any:
        return self.model.info

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        clock = time.perf_counter()
        reply = await self.model.complete(request)
        self.watch.model_s += time.perf_counter() - clock
        return reply


@dataclass(frozen=True)
class TimedWorkspaces:
    """Workspaces in which the time of commands is taken."""

    workspaces: AttemptWorkspaces
    watch: Stopwatch

    @property
    def root(self) -> str:
        return self.workspaces.root

    @property
    def network(self) -> bool:
        return self.workspaces.network

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[Workspace]:
        async with self.workspaces.open(name, image=image, goes_on=goes_on) as workspace:
            for method in ("run", "run_python"):
                setattr(workspace, method, self._timed(getattr(workspace, method)))
            yield workspace

    def _timed(self, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed(*given: Any, **options: Any) -> Any:
            clock = time.perf_counter()
            try:
                return await run(*given, **options)
            finally:
                self.watch.commands_s += time.perf_counter() - clock

        return timed


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """The medians over tasks and `pairs`, in both environments."""
    chosen = instances.load(instances.BUNDLED)[:TASKS]
    repo = instances.task_repo(instances.BUNDLED)
    assert repo is not None
    list(images.build(chosen, repo))
    journal, blobs = Journal.open(f"sqlite:///{folder}/journal.sqlite"), Blobs(folder / "blobs")
    environments: tuple[Environment, ...] = ("host", "docker")
    bounds = []
    for environment in environments:
        seconds: dict[ArmKind, list[float]] = {"mini": [], "durable": []}
        for pair in range(pairs):
            for instance in chosen:
                for arm, measured in seconds.items():
                    name = f"{environment}-{arm}-{instance.instance_id}-{pair}"
                    attempt = _harness_s(arm, instance, environment, name, (journal, blobs))
                    measured.append(asyncio.run(attempt))
        mini, lean = seconds.values()
        ratios = [ours / theirs for ours, theirs in zip(lean, mini, strict=True)]
        detail = f"{statistics.median(lean):.2f} s against {statistics.median(mini):.2f} s"
        title = f"harness of lean against mini, {environment}"
        bounds.append(Bound(title, statistics.median(ratios), LIMIT, "×", detail))
    return bounds


async def _harness_s(
    arm: ArmKind,
    instance: Instance,
    environment: Environment,
    name: str,
    storage: tuple[Journal, Blobs],
) -> float:
    """Return the seconds of an attempt without its model and commands."""
    watch = Stopwatch()
    task = Task(
        instance.instance_id,
        instance.problem_statement,
        instance.base_commit,
        instance.patch,
        runner_of_instance(instance),
    )
    model = TimedModel(SimulatedModel(SimulatedSpec.model_validate(MODEL), task, 0), watch)
    journal, blobs = storage
    workspaces = AttemptWorkspaces(instance, Place(environment), name, journal.id, name)
    journal.start(Attempt(name, "overhead", arm, instance.instance_id, 0, "{}"))
    clock = time.perf_counter()
    async with hold_lease(journal, name) as lease:
        log = JournalLog(journal, lease, blobs, ())
        async with Session.start(
            attempt_id=name,
            models={"": model},
            workspaces=TimedWorkspaces(workspaces, watch),
            log=log,
        ) as session:
            outcome = await ARMS[arm].solve(task, session, ARMS[arm].options())
    wall_s = time.perf_counter() - clock
    if not outcome.patch:
        raise RuntimeError(f"{name}: {outcome.status}, {outcome.detail}")
    return wall_s - watch.model_s - watch.commands_s
