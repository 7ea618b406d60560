"""A job or a pipeline in a process that kills itself at a chosen point.

The points are right before and right after every git command, every write to the lake and to the
journal, every command in a workspace, every request to the forge and every call of the model.
Production code does not know them.
"""

import asyncio
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent.journal import Journal
from agent.models.recorded import ScriptedModel
from agent.workspaces import Workspace
from eval import git
from flows.jobs.definition import Pipeline
from flows.jobs.forges.rest import Rest
from flows.jobs.job import job
from flows.jobs.pipeline import pipeline
from flows.jobs.request import Request
from flows.storage.lake import Lake
from tests.durability.crashing import WRITES_OF_ATTEMPTS, WRITES_OF_STEPS, Points

WRITES_OF_ROWS = ("write", "write_columns", "write_shared")


@dataclass(frozen=True)
class Doomed:
    """A job or a run of a pipeline, and the input of its process.

    A forked process inherits no environment variables.
    """

    asked: str
    """The request or the definition, as JSON."""
    run: str
    """The id of the run; '' for a job."""
    lake: Path
    environment: dict[str, str]

    @property
    def calls(self) -> Path:
        """The file with a line for each call of the model."""
        return self.lake.parent / f"{self.lake.name}-calls.txt"

    @property
    def points(self) -> Path:
        """The file with the names of the points that an undisturbed job passed."""
        return self.lake.parent / f"{self.lake.name}-points.txt"


def run(doomed: Doomed, last: str | None) -> None:
    """Run it, and kill this process at point `last`. Without one, write down all points."""
    os.environ.clear()
    os.environ.update(doomed.environment)
    tempfile.tempdir = str(doomed.lake.parent)
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    points = Points(last, signal.SIGKILL)
    _put_around(points, doomed.calls)
    if doomed.run:
        definition = Pipeline.model_validate_json(doomed.asked)
        asyncio.run(pipeline(definition, str(doomed.lake), run=doomed.run))
    else:
        asyncio.run(job(Request.model_validate_json(doomed.asked), str(doomed.lake)))
    doomed.points.write_text("\n".join(points.passed))


def _put_around(points: Points, calls: Path) -> None:
    for name in WRITES_OF_ATTEMPTS:
        setattr(Journal, name, points.around(name, getattr(Journal, name)))
    for name in WRITES_OF_STEPS:
        setattr(Journal, name, points.around_step(name, getattr(Journal, name)))
    for name in WRITES_OF_ROWS:
        setattr(Lake, name, points.around(name, getattr(Lake, name)))
    git._run = points.around("git", git._run)
    Rest.ask = points.around("request", Rest.ask)  # type: ignore[method-assign]
    Workspace.run = points.around_async("run", Workspace.run)  # type: ignore[method-assign]
    complete = ScriptedModel.complete

    async def counted(*arguments: object) -> object:
        with calls.open("a") as file:
            file.write("call\n")
        return await complete(*arguments)  # type: ignore[arg-type]

    ScriptedModel.complete = points.around_async("call", counted)  # type: ignore[method-assign]
