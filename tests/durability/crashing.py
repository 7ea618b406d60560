"""One attempt in a process that kills itself at a chosen point, as a power cut would.

The points are the moments right before and right after every journal write and every command
in the workspace. They are put around the real classes here; the product knows nothing of them.
"""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.journal import Journal
from agent.models.chat import bash_call
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.workspaces.repository import ShellWorkspace
from eval import instances
from flows import experiment, solve
from flows.cells import Cell, Place
from flows.lake import Lake
from flows.sweeping import swept

WRITES = ("start", "acquire", "intend", "record", "end")

COMMANDS = (
    "echo one >> README.md && echo new > 'new file.txt' && chmod +x 'new file.txt'",
    "ln -s README.md link && printf 'a\\000b' > binary && rm pyproject.toml",
    "git add -A && git diff --cached --binary > ../patch.txt && mv ../patch.txt patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
)
"""What the model asks for, one command a call."""

COST_USD = 0.01


class CountedModel:
    """Answers over HTTP from a server that counts, independently of the journal."""

    info = ModelInfo("counted", "litellm")

    def __init__(self, url: str) -> None:
        self._url = url

    def ceiling_usd(self, request: ModelRequest) -> float:
        return COST_USD

    async def complete(self, request: ModelRequest) -> ModelReply:
        body = json.dumps({"number": request.number}).encode()
        sent = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        await asyncio.to_thread(lambda: urllib.request.urlopen(sent, timeout=30).read())
        command = COMMANDS[request.number]
        message = bash_call(command, call_id=f"call_{request.number}", content="next")
        return ModelReply(message, Usage(1, 0, 0, 1, 0, COST_USD), "declared", "counted")


class Points:
    """Counts the points that are passed and ends the process at one of them."""

    def __init__(self, last: int | None) -> None:
        self.passed = 0
        self._last = last

    def point(self) -> None:
        if self.passed == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.point()
            result = call(*arguments, **options)
            self.point()
            return result

        return counted

    def around_async(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*arguments: Any, **options: Any) -> Any:
            self.point()
            result = await call(*arguments, **options)
            self.point()
            return result

        return counted


def cell(environment: str) -> Cell:
    """One cell of the mini arm on a bundled instance."""
    content = {
        "name": "crash",
        "environment": environment,
        "arms": [{"name": "mini", "agent": "mini", "model": "openai/counted"}],
    }
    declared = experiment.parse(content, "test")
    place = Place("docker" if environment == "docker" else "host")
    return Cell(declared, declared.arms[0], instances.load("bundled")[0], 0, place)


def run(lake: Path, url: str, environment: str, last: int | None) -> None:
    """Run the attempt, killed at point `last`; leaves the number of points that it passed."""
    points = Points(last)
    for name in WRITES:
        setattr(Journal, name, points.around(getattr(Journal, name)))
    ShellWorkspace.run = points.around_async(ShellWorkspace.run)  # type: ignore[method-assign]
    solve.models.build = lambda spec, task, seed: CountedModel(url)  # type: ignore[assignment]
    asyncio.run(_attempt(cell(environment), Lake.open(lake)))
    (lake / "points.txt").write_text(str(points.passed))


async def _attempt(one: Cell, lake: Lake) -> None:
    async with swept(lake):
        await solve.attempt.fn(one, lake)


def points_passed(lake: Path) -> int:
    """How many points the attempt in this lake passed without being killed."""
    return int((lake / "points.txt").read_text())
