"""A loop arm on a small repository, with a model that follows a script for each role."""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agent.arms.loop import arm
from agent.arms.options import LoopOptions
from agent.journal import Attempt, InboxMessage, Journal, NewStep, RecordedStep, TreeRef
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.session.log import JournalLog
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.session import BASE, Session
from agent.types import Outcome, Task
from tests.agent.arms.durable.conftest import FILES, RoleModel, Said, Script, answer
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

ORIGINS = Origins({"": "model"}, "image")

TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "")

DONE: Said = answer(summary="did it", status="done")


class Died(Exception):
    """The process would be dead by now."""


class Mortal(JournalLog):
    """A log that fails after so many rows, and then writes nothing more."""

    rows_left: int | None = None
    has_died = False

    def _die(self) -> None:
        object.__setattr__(self, "has_died", True)
        raise Died

    def _row(self) -> None:
        if self.rows_left is not None:
            if self.rows_left == 0:
                self._die()
            object.__setattr__(self, "rows_left", self.rows_left - 1)

    async def intend(self, call: NewStep, ceiling_usd: float | None) -> None:
        self._row()
        await super().intend(call, ceiling_usd)

    async def record(self, call: NewStep, result: bytes, **costs: Any) -> None:
        self._row()
        await super().record(call, result, **costs)

    async def append(self, step: NewStep, result: bytes, **costs: Any) -> None:
        self._row()
        await super().append(step, result, **costs)

    async def reused(self, step: NewStep) -> RecordedStep | None:
        if self.rows_left == 0:
            self._die()
        known = await super().find_reusable(step)
        if known is not None:
            self._row()
        return known


class Attempts:
    """One attempt of the loop arm that can be run any number of times with one journal."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self.journal.start(Attempt("a", "experiment", "loop", "instance", 0, "{}"))
        self.workspaces = HostWorkspaces(with_files(FILES))
        self.name = "a"
        self._blobs = Blobs(folder / "blobs")
        self._parent: str | None = None
        self.session: Session | None = None

    def fork(self) -> "Attempts":
        """Return a fork of the attempt that reuses its steps where their inputs are the same."""
        made = copy.copy(self)
        made.name, made._parent = "fork", self.name
        made.workspaces.opened.clear()
        self.journal.start(
            Attempt("fork", "experiment", "loop", "instance", 0, "{}", self.name, reuse="{}")
        )
        return made

    async def run(
        self,
        scripts: dict[str, Script],
        capabilities: list[str],
        may_go_on: Callable[[], None] = lambda: None,
        model: RoleModel | None = None,
        dies_after: int | None = None,
        **options: Any,
    ) -> Outcome:
        """Run the loop arm, answering recorded steps from the journal.

        It dies after so many rows of the journal.
        """
        declared = LoopOptions.model_validate({"capabilities": capabilities, **options})
        solve = partial(arm.solve, TASK, options=declared)
        return await self.carry_out(solve, model or RoleModel(scripts), may_go_on, dies_after)

    async def carry_out(
        self,
        solve: Callable[[Session], Awaitable[Outcome]],
        model: RoleModel,
        may_go_on: Callable[[], None] = lambda: None,
        dies_after: int | None = None,
    ) -> Outcome:
        """Run an arm of any kind as `run` does."""
        async with self.opened(model, may_go_on, dies_after) as session:
            return await solve(session)

    @asynccontextmanager
    async def opened(
        self,
        model: RoleModel,
        may_go_on: Callable[[], None] = lambda: None,
        dies_after: int | None = None,
    ) -> AsyncIterator[Session]:
        """Yield the main line of the attempt, for any arm."""
        self.model = model
        async with AsyncExitStack() as stack:
            lease = await stack.enter_async_context(hold_lease(self.journal, self.name))
            log = Mortal(self.journal, lease, self._blobs, self.recorded, reuse=self._reuse)
            object.__setattr__(log, "rows_left", dies_after)
            self.log = log
            session = Session.start(
                attempt_id=self.name,
                models={"": self.model},
                workspaces=self.workspaces,
                log=log,
                may_go_on=may_go_on,
                origins=ORIGINS,
            )
            self.session = await stack.enter_async_context(session)
            yield session

    @property
    def recorded(self) -> list[RecordedStep]:
        """The steps on record, in the order in which they began or, in the workspace, ended."""
        return self.journal.steps(self.name)

    @property
    def _reuse(self) -> Reuse | None:
        if self._parent is None:
            return None
        return Reuse(self._parent, self.journal.steps(self._parent), Rules())

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


def send(attempts: Attempts, text: str, kind: str = "say", message_id: str = "") -> InboxMessage:
    """Send a message to the attempt, by default under its text as its id."""
    message = InboxMessage(message_id or f"{kind} {text}", kind, text, "ann")  # type: ignore[arg-type]
    return attempts.journal.inbox("a").send(message)


def read_wanted_approval(attempts: Attempts) -> str:
    """Return what the attempt wants an approval of."""
    wait = attempts.journal.inbox("a").wait()
    assert wait is not None
    assert (wait.wanted, wait.is_answered) == ("approval", False)
    return wait.about


def bought(steps: Iterable[RecordedStep]) -> set[tuple[str, int]]:
    """Return the calls whose answers are on record: their scopes and positions."""
    return {(s.scope, s.seq) for s in steps if s.kind == "model" and s.result is not None}


def check_trees(steps: Iterable[RecordedStep]) -> None:
    """Check that each step in a workspace began at the tree that the one before it left."""
    trees: dict[str, TreeRef] = {"": BASE}
    for step in sorted(steps, key=lambda each: each.ordinal):
        if step.bench is None or step.inputs.began_at is None:
            continue
        began_at = step.inputs.began_at
        assert began_at.tree == trees.setdefault(step.bench, began_at).tree, step.place
        trees[step.bench] = step.tree or began_at
