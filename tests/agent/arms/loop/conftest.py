"""A loop arm on a small repository, with a model that follows a script for each role."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.arms.loop import arm
from agent.arms.options import LoopOptions
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import held
from agent.session.log import Entry, JournalLog
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.arms.durable.conftest import FILES, RoleModel, Said, Script, answer
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "")

DONE: Said = answer(summary="did it", status="done")


class Died(Exception):
    """The process would be dead by now."""


class Mortal(JournalLog):
    """A log that fails after so many rows, and then writes nothing more."""

    rows_left: int | None = None

    def _row(self) -> None:
        if self.rows_left is not None:
            if self.rows_left == 0:
                raise Died
            object.__setattr__(self, "rows_left", self.rows_left - 1)

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        self._row()
        await super().intend(call, ceiling_usd)

    async def record(self, call: Entry, result: bytes, **costs: Any) -> None:
        self._row()
        await super().record(call, result, **costs)

    async def append(self, step: Entry, result: bytes, **costs: Any) -> None:
        self._row()
        await super().append(step, result, **costs)


class Attempts:
    """One attempt of the loop arm that can be run any number of times with one journal."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self.journal.start(Attempt("a", "experiment", "loop", "instance", 0, "{}"))
        self.workspaces = HostWorkspaces(with_files(FILES))
        self._blobs = Blobs(folder / "blobs")
        self.session: Session | None = None

    async def run(
        self,
        scripts: dict[str, Script],
        capabilities: list[str],
        may_go_on: Callable[[], None] = lambda: None,
        model: RoleModel | None = None,
        dies_after: int | None = None,
        **options: Any,
    ) -> Outcome:
        """Run the attempt, answering recorded steps from the journal.

        It dies after so many rows of the journal.
        """
        declared = LoopOptions.model_validate({"capabilities": capabilities, **options})
        self.model = model or RoleModel(scripts)
        async with AsyncExitStack() as stack:
            lease = await stack.enter_async_context(held(self.journal, "a"))
            log = Mortal(self.journal, lease, self._blobs, self.journal.steps("a"))
            object.__setattr__(log, "rows_left", dies_after)
            session = Session.start(
                attempt_id="a",
                models={"": self.model},
                workspaces=self.workspaces,
                log=log,
                may_go_on=may_go_on,
            )
            self.session = await stack.enter_async_context(session)
            return await arm.solve(TASK, session, declared)

    @property
    def places(self) -> list[str]:
        """The steps of the last run, as `scope/seq kind`, in the order of the scopes."""
        assert self.session is not None
        steps = sorted(self.session.steps, key=lambda step: (step.scope, step.seq))
        return [f"{step.scope}/{step.seq} {step.kind}" for step in steps]

    def told(self, number: int = -1) -> list[str]:
        """Return the results of tools in a request to the model."""
        messages = self.model.asked[number].messages
        return [m["content"] for m in messages if m["role"] == "tool"]


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """Return a new attempt."""
    return Attempts(tmp_path)
