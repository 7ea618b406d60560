"""An attempt on a host workspace that can be run any number of times with one journal."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent import models
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import ModelRequest
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Task
from agent.workspaces import Workspace
from tests.agent.workspaces_on_host import HostWorkspaces

ASK = ModelRequest([{"role": "user", "content": "?"}])
TASK = Task("t", "statement", "HEAD", "")


def prepare(folder: Path) -> None:
    folder.mkdir()
    (folder / "file.txt").write_text("base\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


class Runs:
    """One attempt that can be run any number of times with the same journal."""

    def __init__(self, folder: Path) -> None:
        self.workspaces = HostWorkspaces(prepare)
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self._blobs = Blobs(folder / "blobs")
        self.attempt_id = "a"
        self.journal.start(Attempt("a", "experiment", "arm", "instance", 0, "{}"))

    @asynccontextmanager
    async def session(self, model: Any = None, **options: Any) -> AsyncIterator[Session]:
        async with hold_lease(self.journal, self.attempt_id) as lease:
            recorded = self.journal.steps(self.attempt_id)
            async with Session.start(
                attempt_id=self.attempt_id,
                models={"": model or scripted("one", "two", "three")},
                workspaces=self.workspaces,
                log=JournalLog(self.journal, lease, self._blobs, recorded),
                **options,
            ) as session:
                yield session


def scripted(*replies: str) -> Any:
    return models.build(models.parse({"provider": "scripted", "replies": [*replies]}), TASK, 0)


async def text(workspace: Workspace) -> str:
    return (await workspace.read("file.txt")).decode()
