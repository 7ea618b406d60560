"""The one door between agent code and the world.

An arm calls models and works in its workspace only through its `Session`, so that every
contact is one numbered `Step`, written down before and after it happens. Resuming is running
the arm again from the top: steps that are recorded answer at once, the first that is not is
live.

Steps are numbered within a scope, a path such as `plan/3` or `step-2/candidate-1`. Scopes in
one workspace take turns; branches have a workspace of their own and may run at the same time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from agent.errors import (
    AgentError,
    ContextWindowExceeded,
    Destroyed,
    DivergenceError,
    Interrupted,
    NotSent,
    OutOfTime,
    Undone,
)
from agent.journal import RecordedStep
from agent.models.protocol import Message, Model, ModelReply, ModelRequest
from agent.session.deadlines import Deadline, covered_s
from agent.session.log import Entry, NoLog, StepLog
from agent.session.steps import (
    ActionResult,
    CutOff,
    Result,
    Step,
    StepKind,
    canonical,
    digest,
    encode,
    from_record,
)
from agent.session.workbench import BASE, Workbench, Workspaces
from agent.workspaces.protocol import CommandResult, Workspace

T = TypeVar("T")

_CUT_OFF: Mapping[str, type[AgentError]] = {
    "time": OutOfTime,
    "too_long": ContextWindowExceeded,
    "destroyed": Undone,
}


@dataclass
class _Attempt:
    """What all scopes of an attempt share."""

    attempt_id: str
    models: Mapping[str, Model]
    workspaces: Workspaces
    log: StepLog
    on_step: Callable[[Step], None]
    may_go_on: Callable[[], None]
    recorded: dict[tuple[str, int], RecordedStep]
    steps: list[Step] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)

    def spent_s(self, scope: str) -> float:
        """What earlier runs used of the time of a scope and those inside it."""
        inside = f"{scope}/" if scope else ""
        steps = self.recorded.values()
        return covered_s(s for s in steps if s.scope == scope or s.scope.startswith(inside))


@dataclass(frozen=True)
class _Request:
    """One contact with the world, before it happens."""

    kind: StepKind
    whole: bytes
    """All of it, canonical: what its digest is of."""
    kept: dict[str, Any]
    """What the record keeps of it."""
    run: Callable[[float], Awaitable[Result]]
    """Does it, within so many seconds."""
    ceiling_usd: Callable[[], float | None] = lambda: 0.0


class Session:
    """One scope of an attempt; the one that is made first is the attempt's main line."""

    def __init__(
        self,
        *,
        attempt_id: str,
        models: Mapping[str, Model],
        workspaces: Workspaces,
        log: StepLog | None = None,
        on_step: Callable[[Step], None] = lambda step: None,
        may_go_on: Callable[[], None] = lambda: None,
        limit_s: float | None = None,
    ) -> None:
        """`models` by role; the one of role `""` answers every role that has none.

        `may_go_on` is asked before every live step, and again right before a model call is
        sent; it raises Interrupted where the attempt may not go on. `limit_s` bounds the time of
        the attempt over all its runs.
        """
        log = log or NoLog()
        recorded = {(step.scope, step.seq): step for step in log.recorded}
        self._attempt = _Attempt(attempt_id, models, workspaces, log, on_step, may_go_on, recorded)
        self._begin("", Workbench("", workspaces, log), [], "the attempt", limit_s)

    def _begin(
        self,
        scope: str,
        bench: Workbench,
        deadlines: list[Deadline],
        what: str,
        limit_s: float | None,
    ) -> None:
        if scope in self._attempt.scopes:
            raise ValueError(f"scope {scope!r} was used before; its steps would be mistaken")
        self._attempt.scopes.add(scope)
        self._scope = scope
        self._bench = bench
        own = [] if limit_s is None else [Deadline(what, limit_s, self._attempt.spent_s(scope))]
        self._deadlines = [*deadlines, *own]
        self._next_seq = 0
        self._conversation: list[Message] = []
        self._calls_answered = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._bench.close()

    def scope(self, name: str, *, limit_s: float | None = None) -> "Session":
        """A part of this line of work with numbers of its own, in the same workspace.

        Raises:
            ValueError: there was a scope of that name.
        """
        return self._child(name, self._bench, limit_s)

    @asynccontextmanager
    async def branch(
        self, name: str, tree: str, *, limit_s: float | None = None
    ) -> AsyncIterator["Session"]:
        """A line of work in a workspace of its own that begins at a `tree` of this attempt.

        Raises:
            ValueError: there was a scope of that name.
        """
        path = f"{self._scope}/{name}" if self._scope else name
        bench = Workbench(path, self._attempt.workspaces, self._attempt.log, tree)
        async with self._child(name, bench, limit_s) as child:
            yield child

    def _child(self, name: str, bench: Workbench, limit_s: float | None) -> "Session":
        child = object.__new__(Session)
        child._attempt = self._attempt
        path = f"{self._scope}/{name}" if self._scope else name
        child._begin(path, bench, self._deadlines, path, limit_s)
        return child

    @property
    def attempt_id(self) -> str:
        return self._attempt.attempt_id

    @property
    def steps(self) -> list[Step]:
        """The steps of the attempt, in the order in which they were finished."""
        return self._attempt.steps

    @property
    def root(self) -> str:
        """Absolute path of the repository, as commands see it."""
        return self._attempt.workspaces.root

    @property
    def tree(self) -> str:
        """The work tree after the last step, for `branch` and `take`; `BASE` at first."""
        return self._bench.tree

    def model(self, role: str = "") -> Model:
        """The model that answers a role."""
        models = self._attempt.models
        if role not in models and "" not in models:
            raise ValueError("this arm asks for a model, and the experiment gives it none")
        return models[role if role in models else ""]

    async def call(self, request: ModelRequest) -> ModelReply:
        """One model call, as a step.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing was sent.
            DivergenceError: the recorded step at this place asked something else.
            OutOfTime: the time of this line of work was over before it was answered.
        """
        model = self.model(request.role)
        numbered = replace(request, number=self._calls_answered, scope=self._scope)
        asked = {"messages": request.messages, "tools": request.tools, "role": request.role}

        async def answer(left_s: float) -> Result:
            async with asyncio.timeout(left_s if left_s < float("inf") else None):
                return await model.complete(numbered)

        reply = await self._step(
            _Request(
                "model",
                canonical(asked),
                {"role": request.role, "messages": self._new(request.messages)},
                answer,
                lambda: model.ceiling_usd(numbered),
            )
        )
        assert isinstance(reply, ModelReply)
        self._calls_answered += 1
        return reply

    def _new(self, messages: list[Message]) -> list[Message]:
        """What was not in the scope's conversation before; all of it if that was changed."""
        before, self._conversation = self._conversation, list(messages)
        return messages[len(before) :] if messages[: len(before)] == before else messages

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """One command in the workspace, as a step.

        Raises:
            DivergenceError: the recorded step at this place asked something else.
            OutOfTime: the time of this line of work was over before it ended.
            Undone: it left no repository; the workspace is what it was before.
        """
        request = {"command": command, "timeout_s": timeout_s}

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            result = await workspace.run(command, timeout_s=min(timeout_s, left_s))
            if result.timed_out and left_s < timeout_s:
                raise TimeoutError
            return result

        result = await self._step(_Request("command", canonical(request), request, execute))
        assert isinstance(result, CommandResult)
        return result

    async def act(
        self,
        name: str,
        request: dict[str, Any],
        work: Callable[[Workspace], Awaitable[T]],
        result_type: type[T],
    ) -> T:
        """Whatever else touches the workspace, as one step: it is repeated as a whole.

        `result_type` is anything that pydantic turns into JSON and back.

        Raises:
            DivergenceError: the recorded step at this place asked something else.
            OutOfTime: the time of this line of work was over before it ended.
            Undone: it left no repository; the workspace is what it was before.
        """
        adapter = TypeAdapter(result_type)

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            try:
                async with asyncio.timeout(left_s if left_s < float("inf") else None):
                    done = await work(workspace)
            except TimeoutError:
                await self._bench.close()  # the work may have been at any point
                raise
            return ActionResult(adapter.dump_python(done, mode="json"))

        asked = {"action": name, **request}
        result = await self._step(_Request("action", canonical(asked), asked, execute))
        assert isinstance(result, ActionResult)
        return adapter.validate_python(result.content)

    async def diff(self) -> str:
        """Everything that differs from the base commit, as a step."""
        return await self.act("diff", {}, lambda workspace: workspace.diff(), str)

    async def take(self, tree: str) -> None:
        """Make the work tree one that another line of work of this attempt left, as a step."""

        async def put(workspace: Workspace) -> None:
            await self._bench.put(tree)

        await self.act("take", {"tree": tree}, put, type(None))

    async def snapshot(self) -> None:
        """Keep the whole workspace as an image, as a step: `tree` is from then on the work
        tree in it. A host workspace cannot be kept so, and nothing happens."""
        await self.act("snapshot", {}, lambda workspace: self._bench.snapshot(), type(None))

    async def _step(self, request: _Request) -> Result:
        """Answer from the record, or run and record.

        Raises:
            OutOfTime: it was cut off, now or then.
            ContextWindowExceeded: the model refused to read so much, now or then.
            Undone: it left no repository, now or then.
        """
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        known = self._attempt.recorded.get((self._scope, seq))
        if known is not None and known.result is not None:
            step = self._replayed(known, request)
        else:
            self._attempt.may_go_on()
            step = await self._live(seq, request)
        self._attempt.steps.append(step)
        self._attempt.on_step(step)
        if isinstance(step.result, CutOff):
            raise _CUT_OFF[step.result.why](step.result.cut_off)
        return step.result

    def _replayed(self, known: RecordedStep, request: _Request) -> Step:
        # What a fork was given answers by its place: its prompts may be others.
        is_same = known.copied or known.digest == digest(request.whole)
        if not is_same or known.kind not in (request.kind, "limit"):
            raise DivergenceError(
                self.attempt_id,
                known.scope,
                known.seq,
                known.request.decode("utf-8", "replace"),
                canonical(request.kept).decode("utf-8", "replace"),
            )
        if known.tree is not None:
            self._bench.replayed(known.tree)
        return from_record(known)

    async def _live(self, seq: int, request: _Request) -> Step:
        log = self._attempt.log
        deadline = min(self._deadlines, key=lambda each: each.left_s, default=None)
        over = deadline is not None and deadline.left_s <= 0
        kind: StepKind = "limit" if over else request.kind
        entry = Entry(self._scope, seq, kind, digest(request.whole), canonical(request.kept))
        if kind == "model":
            await self._announce(entry, request)
        started_at, clock = datetime.now(UTC), time.perf_counter()
        result: Result
        try:
            if deadline is None:
                result = await request.run(float("inf"))
            elif over:
                result = CutOff(deadline.what)
            else:
                result = await request.run(deadline.left_s)
        except TimeoutError:
            if deadline is None or deadline.left_s > 0:
                raise
            result = CutOff(deadline.what)
        except NotSent:
            await log.refuse(entry)
            raise
        except OutOfTime as error:  # of a recorded model, whose time ran out then
            result = CutOff(str(error))
        except ContextWindowExceeded as error:
            # Nobody charges for it; but that it was refused decides what the arm does next.
            await log.refuse(entry)
            entry = replace(entry, kind="limit")
            result = CutOff(str(error), "too_long")
        except Destroyed as error:
            result = await self._undone(error)
        duration = time.perf_counter() - clock
        if entry.kind == "model":
            cost_usd = result.usage.cost_usd if isinstance(result, ModelReply) else None
            await log.record(entry, encode(result), cost_usd=cost_usd, duration_s=duration)
        else:
            tree = None
            if _may_change_files(kind, result):
                try:
                    tree = await self._bench.changed()
                except Destroyed as error:
                    result = await self._undone(error)
            await log.enter(entry, encode(result), duration_s=duration, tree=tree)
        return Step(
            self._scope, seq, entry.kind, request.kept, entry.digest, result, started_at, duration
        )

    async def _announce(self, entry: Entry, request: _Request) -> None:
        """Write down that a call is about to be made, and take that back if it may not be.

        Raises:
            BudgetExhausted: it could cost more than is left.
            Interrupted: the attempt was asked to stop while this was written down.
        """
        # In a thread: the first time, the price list of a model may have to be loaded.
        await self._attempt.log.intend(entry, await asyncio.to_thread(request.ceiling_usd))
        try:
            self._attempt.may_go_on()
        except Interrupted:
            await self._attempt.log.refuse(entry)
            raise

    async def _undone(self, error: Destroyed) -> CutOff:
        """Give up a workspace that holds no repository: the next step has one as the last
        step left it."""
        await self._bench.close()
        return CutOff(f"{error}. Everything was put back to what it was before.", "destroyed")


def _may_change_files(kind: StepKind, result: Result) -> bool:
    if isinstance(result, CutOff):
        return kind == "command" and result.why == "time"
    return kind in ("command", "action")


__all__ = ["BASE", "Session"]
