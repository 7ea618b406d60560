"""An attempt that can be run repeatedly with one journal, and a model that costs money."""

import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agent.journal import Account, Attempt, Journal, Limit
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import Model, ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.log import JournalLog
from agent.session.session import Session
from tests.agent.workspaces_on_host import HostWorkspaces

QUESTION = ModelRequest([{"role": "user", "content": "What next?"}])


class PaidModel:
    """A model that answers each call with the next number, for $0.25, and counts its calls."""

    info = ModelInfo("paid", "scripted")

    def __init__(self) -> None:
        self.calls = 0

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return the maximum cost of a call."""
        return 1.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request."""
        self.calls += 1
        message = {"role": "assistant", "content": str(self.calls)}
        usage = Usage(input_tokens=100, output_tokens=10, cost_usd=0.25)
        return ModelReply(message, usage, "declared", "paid")


class OneAttempt:
    """A journal with one attempt, in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self.workspaces = HostWorkspaces(make_repository)
        self._blobs = Blobs(folder / "blobs")
        self.journal.start(attempt_at_a_cell("first"))

    @asynccontextmanager
    async def session(
        self,
        model: Model,
        attempt_id: str = "first",
        *,
        limits: tuple[Limit, ...] = (),
        may_go_on: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Session]:
        """Run the attempt, replaying the steps that earlier runs recorded."""
        async with hold_lease(self.journal, attempt_id) as lease:
            recorded = self.journal.steps(attempt_id)
            async with Session.start(
                attempt_id=attempt_id,
                models={"": model},
                workspaces=self.workspaces,
                log=JournalLog(self.journal, lease, self._blobs, recorded, limits),
                may_go_on=may_go_on,
            ) as session:
                yield session

    def account(self, attempt_id: str = "first") -> Account:
        """Return the costs of the attempt."""
        return self.journal.account(attempt_id)


def attempt_at_a_cell(attempt_id: str) -> Attempt:
    """Return an attempt as the journal stores it."""
    return Attempt(attempt_id, "experiment", "arm", "instance", 0, "{}")


def make_repository(folder: Path) -> None:
    """Fill a workspace with a repository of one file."""
    folder.mkdir()
    (folder / "notes.txt").write_text("base\n")
    identity = ["-c", "user.name=walkthrough", "-c", "user.email=w@example.invalid"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
