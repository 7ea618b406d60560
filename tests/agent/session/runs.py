"""An attempt on a host workspace that can be run any number of times with one journal."""

import subprocess
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from agent import models
from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Task
from agent.workspaces import Workspace
from tests.agent.attempts import begin, open_session
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
        self.journal, self._folder = begin(folder), folder
        self.attempt_id = "a"

    def session(self, model: Any = None, **options: Any) -> AbstractAsyncContextManager[Session]:
        model = model or scripted("one", "two", "three")
        options["workspaces"] = self.workspaces
        return open_session(self.journal, self._folder, model, self.attempt_id, **options)


def scripted(*replies: str) -> Any:
    return models.build(models.parse({"provider": "scripted", "replies": [*replies]}), TASK, 0)


async def text(workspace: Workspace) -> str:
    return (await workspace.read("file.txt")).decode()
