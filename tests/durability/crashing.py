"""One attempt in a process that kills or stops itself at a chosen point.

The points are right before and right after every journal write and every workspace command, and
during every model call. This module wraps them around the real classes; production code does not
know them.
"""

import asyncio
import json
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from agent.arms import ArmKind
from agent.journal import EndedStep, FreeStep, Journal, Lease, NewStep
from agent.models.chat import bash_call
from agent.models.protocol import Model, ModelInfo, ModelReply, ModelRequest, Usage
from agent.session import log
from agent.types import Task
from agent.workspaces import Workspace
from eval import instances
from flows.cells import attempts
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place
from flows.storage import journals
from flows.storage.cleanup import clean_up_around
from flows.storage.lake import Lake
from tests.durability.first_wrong import FirstWrong

WRITES_OF_ATTEMPTS = ("start", "acquire", "end")
WRITES_OF_STEPS = ("intend", "record", "append")

COMMANDS = (
    "echo one >> README.md && echo new > 'new file.txt' && chmod +x 'new file.txt'",
    "ln -s README.md link && printf 'a\\000b' > binary && rm pyproject.toml",
    "git add -A && git diff --cached --binary > ../patch.txt && mv ../patch.txt patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
)
"""The commands that the model asks for, one per call."""

COST_USD = 0.01

INSTANCES: dict[ArmKind, str] = {
    "mini": "durabench__gridprint-1",
    "durable": "durabench__slotwise-2",
}
"""The instance of each arm. That of the durable arm needs a change to only one file."""


@dataclass(frozen=True)
class Setting:
    """The settings of a process.

    A forked one inherits neither environment variables nor patches.
    """

    lake: Path
    url: str
    """URL of the model server."""
    database: str | None
    """URL of the journal; None for SQLite in the lake."""

    def enter(self) -> Lake:
        """Apply the settings to this process and return the lake.

        Workspaces are created beside the lake.
        """
        os.environ.pop(journals.VARIABLE, None)
        if self.database is not None:
            os.environ[journals.VARIABLE] = self.database
        tempfile.tempdir = str(self.lake.parent)
        return Lake.open(self.lake)


def ask(url: str, content: dict[str, Any], sent: Callable[[], None] = lambda: None) -> Any:
    """Return the server's answer. `sent` is called between the request and the answer."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        connection.request("POST", "/", json.dumps(content))
        sent()
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


class CountedModel:
    """A model whose calls are counted by an HTTP server, independently of the journal."""

    info = ModelInfo("counted", "litellm")

    def __init__(self, url: str, sent: Callable[[str], None]) -> None:
        """Call `sent` with the scope of each call while the call is in flight."""
        self._url = url
        self._sent = sent

    def ceiling_usd(self, request: ModelRequest) -> float:
        return COST_USD

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self._count(request)
        command = COMMANDS[request.number]
        message = bash_call(command, call_id=f"call_{request.number}", content="next")
        return ModelReply(message, Usage(1, 0, 0, 1, 0, COST_USD), "declared", "counted")

    async def _count(self, request: ModelRequest) -> None:
        call = {"scope": request.scope, "number": request.number}
        await asyncio.to_thread(ask, self._url, call, lambda: self._sent(request.scope))


class CountedRoles(CountedModel):
    """A counted model that answers every role of the durable arm."""

    def __init__(self, url: str, sent: Callable[[str], None], task: Task) -> None:
        super().__init__(url, sent)
        self._roles = FirstWrong(task)

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self._count(request)
        reply = await self._roles.complete(request)
        # Simulated tokens depend on how long the tests took to run.
        return replace(reply, usage=Usage(1, 0, 0, 1, 0, COST_USD), cost_source="declared")


def model_of(arm: ArmKind, url: str, sent: Callable[[str], None], task: Task) -> Model:
    """Return the model of an arm."""
    return CountedRoles(url, sent, task) if arm == "durable" else CountedModel(url, sent)


class Points:
    """A record of the points that are passed, which sends this process a signal at one of them.

    A name is `<when> <what> <n>`, such as `before record 3`, and within a scope of steps `<when>
    <what> <scope> <n>`; n counts from 0. Concurrency therefore changes only the names of points
    around commands.
    """

    def __init__(self, last: str | None, number: signal.Signals) -> None:
        self.passed: list[str] = []
        self._last = last
        self._number = number
        self._times = Counter[str]()
        self._renewing = threading.Lock()
        self._counting = threading.Lock()

    def point(self, name: str, scope: str = "") -> None:
        name = f"{name} {scope}" if scope else name
        with self._counting:
            numbered = f"{name} {self._times[name]}"
            self._times[name] += 1
            if numbered == self._last:
                # A process that is stopped in a transaction would block all others on SQLite.
                with self._renewing:
                    signal.pthread_kill(threading.get_ident(), self._number)
            self.passed.append(numbered)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.point(f"before {name}")
            result = call(*arguments, **options)
            self.point(f"after {name}")
            return result

        return counted

    def around_step(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Put the points around a method of the journal that writes a step."""

        def counted(
            journal: Journal,
            lease: Lease,
            first: str | NewStep | EndedStep,
            *arguments: Any,
            **options: Any,
        ) -> Any:
            step = first.step if isinstance(first, FreeStep) else first
            scope = step if isinstance(step, str) else step.scope
            self.point(f"before {name}", scope)
            result = call(journal, lease, first, *arguments, **options)
            self.point(f"after {name}", scope)
            return result

        return counted

    def around_async(
        self, name: str, call: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def counted(*arguments: Any, **options: Any) -> Any:
            self.point(f"before {name}")
            result = await call(*arguments, **options)
            self.point(f"after {name}")
            return result

        return counted

    def not_within(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same call, during which no signal is sent."""

        def guarded(*arguments: Any, **options: Any) -> Any:
            with self._renewing:
                return call(*arguments, **options)

        return guarded


def cell(environment: str, arm: ArmKind = "mini") -> Cell:
    """Return the cell of an arm on a bundled instance."""
    options = {"profile": {"parallel": 2, "snapshots": True}} if arm == "durable" else {}
    content = {
        "name": "crash",
        "environment": environment,
        "arms": [
            {
                "name": arm,
                "agent": arm,
                "model": {
                    "name": "openai/counted",
                    "api_base": "http://stand-in.invalid/v1",
                    "input_cost_per_token": 1e-6,
                    "output_cost_per_token": 1e-6,
                },
                "options": options,
            }
        ],
    }
    declared = declaration.parse(content, "test")
    [instance] = (i for i in instances.load("bundled") if i.instance_id == INSTANCES[arm])
    place = Place("docker" if environment == "docker" else "host")
    return Cell(declared, declared.arms[0], instance, 0, place)


def put_around(points: Points, url: str, arm: ArmKind = "mini") -> None:
    """Put the points around the real classes in this process, and install the counted model."""
    # Steps that a clock writes would be points of one run and not of the next.
    log.HOLD_S = 3600.0
    for name in WRITES_OF_ATTEMPTS:
        setattr(Journal, name, points.around(name, getattr(Journal, name)))
    for name in WRITES_OF_STEPS:
        setattr(Journal, name, points.around_step(name, getattr(Journal, name)))
    Journal.renew = points.not_within(Journal.renew)  # type: ignore[method-assign]
    Workspace.run = points.around_async("run", Workspace.run)  # type: ignore[method-assign]

    def sent(scope: str) -> None:
        points.point("during call", scope)

    attempts.models.build = lambda spec, task, seed, admit: model_of(arm, url, sent, task)  # type: ignore[assignment]


def run(setting: Setting, environment: str, last: str | None, arm: ArmKind = "mini") -> None:
    """Run the attempt and kill this process at point `last`.

    If the attempt ends, write the names of the points that it passed to the lake.
    """
    points, lake = Points(last, signal.SIGKILL), setting.enter()
    put_around(points, setting.url, arm)
    asyncio.run(attempt(cell(environment, arm), lake))
    (lake.root / "points.txt").write_text("\n".join(points.passed))


async def attempt(one: Cell, lake: Lake) -> None:
    """Run the attempt of a cell as a flow does."""
    async with clean_up_around(lake):
        state = await attempts.attempt.fn(one, lake)
        await state.aresult()


def points_passed(lake: Path) -> list[str]:
    """Return the points that a completed attempt in this lake passed."""
    return (lake / "points.txt").read_text().splitlines()
