"""The only connection between agent code and the outside world.

An arm calls models and works in its workspace only through its `Session`. Every contact is one
numbered `Step`, which is recorded: a model call before and after it happens, any other step
afterwards. To resume, the arm runs again from the top: recorded steps return their results at once,
and the first unrecorded one runs live.

Steps are numbered within a scope, a path such as `plan/3` or `step-2/candidate-1`. Scopes in one
workspace take turns. Branches have their own workspaces and may run at the same time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from agent.errors import (
    AgentError,
    BudgetExhausted,
    BudgetReserved,
    ContextWindowExceeded,
    Destroyed,
    DivergenceError,
    Interrupted,
    NotSent,
    OutOfTime,
    RequestRefused,
    Undone,
)
from agent.journal import Inputs, RecordedStep, TreeRef
from agent.models.protocol import Message, Model, ModelReply, ModelRequest
from agent.session.contacts import Contact, contact
from agent.session.deadlines import Deadline, covered_s
from agent.session.log import Entry, NoLog, StepLog
from agent.session.reuse import Origins
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
from agent.workspaces.protocol import CommandResult, Environment, Mount, Workspace

T = TypeVar("T")

_CUT_OFF: Mapping[str, type[AgentError]] = {
    "time": OutOfTime,
    "too_long": ContextWindowExceeded,
    "refused": RequestRefused,
    "destroyed": Undone,
}


@dataclass
class _Attempt:
    """State that all scopes of an attempt share."""

    attempt_id: str
    models: Mapping[str, Model]
    workspaces: Workspaces
    log: StepLog
    on_step: Callable[[Step], None]
    may_go_on: Callable[[], None]
    recorded: dict[tuple[str, int], RecordedStep]
    origins: Origins
    steps: list[Step] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)

    def spent_s(self, scope: str) -> float:
        """Return the seconds that earlier runs spent in a scope and the scopes inside it."""
        inside = f"{scope}/" if scope else ""
        steps = self.recorded.values()
        return covered_s(s for s in steps if s.scope == scope or s.scope.startswith(inside))

    def deadlines(self, scope: str, what: str, limit_s: float | None) -> list[Deadline]:
        """Return the deadline of a scope, shown as `what`; empty without a limit."""
        return [] if limit_s is None else [Deadline(what, limit_s, self.spent_s(scope))]


class Session:
    """One scope of an attempt. The first scope is the attempt's main line."""

    def __init__(
        self, attempt: _Attempt, scope: str, bench: Workbench, deadlines: Sequence[Deadline]
    ) -> None:
        """Use `start`, or `scope` and `branch` of another session."""
        if scope in attempt.scopes:
            raise ValueError(f"scope {scope!r} was used before; its steps would be mistaken")
        attempt.scopes.add(scope)
        self._attempt = attempt
        self._scope = scope
        self._bench = bench
        self._deadlines = deadlines
        self._next_seq = 0
        self._conversation: list[Message] = []
        self._calls_answered = 0

    @classmethod
    def start(
        cls,
        *,
        attempt_id: str,
        models: Mapping[str, Model],
        workspaces: Workspaces,
        log: StepLog | None = None,
        on_step: Callable[[Step], None] = lambda step: None,
        may_go_on: Callable[[], None] = lambda: None,
        limit_s: float | None = None,
        origins: Origins | None = None,
    ) -> Self:
        """Return the main line of an attempt.

        `models` maps roles to models. The model of role `""` answers every role without its own.
        `may_go_on` is called before every live step, and again right before a model call is sent.
        It raises Interrupted if the attempt must stop. `limit_s` bounds the time of the attempt
        over all its runs. `origins` let forks of the attempt reuse its steps.
        """
        log = log or NoLog()
        recorded = {(step.scope, step.seq): step for step in log.recorded}
        attempt = _Attempt(
            attempt_id,
            models,
            workspaces,
            log,
            on_step,
            may_go_on,
            recorded,
            origins or Origins(),
        )
        deadlines = attempt.deadlines("", "the attempt", limit_s)
        return cls(attempt, "", Workbench("", workspaces, log), deadlines)

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
        """Return a part of this line of work with its own step numbers, in the same workspace.

        Raises:
            ValueError: a scope of that name already exists.
        """
        return self._child(self._inside(name), self._bench, limit_s)

    @asynccontextmanager
    async def branch(
        self, name: str, tree: TreeRef, *, limit_s: float | None = None
    ) -> AsyncIterator["Session"]:
        """Open a line of work with its own workspace that starts at a `tree` of this attempt.

        Raises:
            ValueError: a scope of that name already exists.
        """
        path = self._inside(name)
        bench = Workbench(path, self._attempt.workspaces, self._attempt.log, tree)
        async with self._child(path, bench, limit_s) as child:
            yield child

    def _inside(self, name: str) -> str:
        return f"{self._scope}/{name}" if self._scope else name

    def _child(self, path: str, bench: Workbench, limit_s: float | None) -> "Session":
        own = self._attempt.deadlines(path, path, limit_s)
        return Session(self._attempt, path, bench, [*self._deadlines, *own])

    @property
    def attempt_id(self) -> str:
        return self._attempt.attempt_id

    @property
    def steps(self) -> list[Step]:
        """The steps of the attempt, in the order in which they finished."""
        return self._attempt.steps

    @property
    def root(self) -> str:
        """Absolute path of the repository, as seen by commands."""
        return self._attempt.workspaces.root

    @property
    def environment(self) -> Environment:
        """The kind of place in which commands run."""
        return self._attempt.workspaces.environment

    @property
    def network(self) -> bool:
        """True if commands can reach other machines."""
        return self._attempt.workspaces.network

    @property
    def name(self) -> str:
        """The path of the scope."""
        return self._scope

    @property
    def recorded(self) -> list[RecordedStep]:
        """The steps of this scope that earlier runs recorded or began, by number."""
        known = self._attempt.recorded.values()
        return sorted((s for s in known if s.scope == self._scope), key=lambda step: step.seq)

    @property
    def tree(self) -> TreeRef:
        """The work tree after the last step, for `branch` and `take`; `BASE` at first."""
        return self._bench.tree

    def model(self, role: str = "") -> Model:
        """Return the model that answers a role."""
        models = self._attempt.models
        if role not in models and "" not in models:
            raise ValueError("this arm needs a model, and the experiment gives it none")
        return models[role if role in models else ""]

    async def call(self, request: ModelRequest) -> ModelReply:
        """Make a model call as a step.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing was sent.
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the answer arrived.
        """
        model = self.model(request.role)
        numbered = replace(request, number=self._calls_answered, scope=self._scope)
        asked = {"messages": request.messages, "tools": request.tools, "role": request.role}
        whole = canonical(asked)
        kept = {"role": request.role, "messages": self._new(request.messages)}

        inputs = self._attempt.origins.of_call(request.role)
        reply = await self._step(contact(model, numbered, whole, kept, inputs))
        assert isinstance(reply, ModelReply)
        self._calls_answered += 1
        return reply

    def _new(self, messages: list[Message]) -> list[Message]:
        """Return the messages that are new to the conversation, or all if it was changed."""
        before, self._conversation = self._conversation, list(messages)
        return messages[len(before) :] if messages[: len(before)] == before else messages

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run a command in the workspace as a step.

        Raises:
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the command did.
            Undone: the command left no repository; the workspace was restored.
        """
        request = {"command": command, "timeout_s": timeout_s}

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            result = await workspace.run(command, timeout_s=min(timeout_s, left_s))
            if result.timed_out and left_s < timeout_s:
                raise TimeoutError
            return result

        inputs = self._attempt.origins.of_work({})
        result = await self._step(
            Contact("command", canonical(request), request, execute, inputs=inputs)
        )
        assert isinstance(result, CommandResult)
        return result

    async def act(
        self,
        name: str,
        request: dict[str, Any],
        work: Callable[[Workspace], Awaitable[T]],
        result_type: type[T],
        *,
        depends_on: Any = None,
    ) -> T:
        """Run any other work on the workspace as one step, which is repeated as a whole.

        `result_type` is any type that pydantic converts to JSON and back. `depends_on` is all that
        decides the result besides the request and the workspace, as values that `fingerprint`
        takes. With None, which means that it is unknown, no fork reuses the step.

        Raises:
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the work did.
            Undone: the work left no repository; the workspace was restored.
        """
        adapter = TypeAdapter(result_type)

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            try:
                async with asyncio.timeout(left_s if left_s < float("inf") else None):
                    done = await work(workspace)
            except TimeoutError:
                await self._bench.close()  # the work may have been interrupted at any point
                raise
            return ActionResult(adapter.dump_python(done, mode="json"))

        asked = {"action": name, **request}
        inputs = self._attempt.origins.of_work(depends_on)
        result = await self._step(
            Contact("action", canonical(asked), asked, execute, inputs=inputs)
        )
        assert isinstance(result, ActionResult)
        return adapter.validate_python(result.content)

    async def diff(self) -> str:
        """Return all differences from the base commit, as a step."""
        return await self.act("diff", {}, lambda workspace: workspace.diff(), str, depends_on={})

    def mount(self, mounts: Sequence[Mount]) -> None:
        """Let containers that are opened from now on see folders or volumes, read-only."""
        self._bench.mount(mounts)

    async def take(self, tree: TreeRef) -> None:
        """Set the work tree to one of another line of work of this attempt, as a step.

        The workspace is restored when the next step needs it.
        """

        async def take(left_s: float) -> Result:
            self._bench.take(tree)
            return ActionResult(None)

        asked = {"action": "take", "tree": str(tree)}
        inputs = self._attempt.origins.of_work({})
        await self._step(Contact("action", canonical(asked), asked, take, inputs=inputs))

    async def snapshot(self) -> None:
        """Save the whole workspace as an image, as a step.

        From then on, `tree` refers to the work tree in that image. Does nothing for a host
        workspace, which cannot be saved as an image.
        """
        await self.act("snapshot", {}, lambda workspace: self._bench.snapshot(), type(None))

    async def _step(self, request: Contact) -> Result:
        """Return the recorded result, or run the step and record it.

        Raises:
            OutOfTime: the step was cut off, now or when it was recorded.
            ContextWindowExceeded: the model rejected the length, now or when it was recorded.
            Undone: the step left no repository, now or when it was recorded.
        """
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        return await self.step_at(seq, request)

    async def step_at(self, seq: int, request: Contact) -> Result:
        """Make the step of a number, as `_step` does. The scope then has no other steps."""
        known = self._attempt.recorded.get((self._scope, seq))
        if known is not None and known.result is not None:
            step = self._replayed(known, request)
        else:
            self._attempt.may_go_on()
            step = await self._reused(seq, request) or await self._live(seq, request)
        self._attempt.steps.append(step)
        self._attempt.on_step(step)
        if isinstance(step.result, CutOff):
            raise _CUT_OFF[step.result.why](step.result.cut_off)
        return step.result

    def _replayed(self, known: RecordedStep, request: Contact) -> Step:
        # Steps copied to a fork are matched by position, since the fork's prompts may differ.
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

    async def _reused(self, seq: int, request: Contact) -> Step | None:
        """Return the step with the result of another attempt, or None if none has its inputs."""
        known = await self._attempt.log.reused(self._entry(seq, request, request.kind))
        if known is None:
            return None
        for deadline in self._deadlines:
            deadline.spend(known.duration_s or 0.0)
        return self._replayed(known, request)

    def _entry(self, seq: int, request: Contact, kind: StepKind) -> Entry:
        inputs = Inputs(self._bench.tree, request.inputs)
        whole = digest(request.whole)
        return Entry(self._scope, seq, kind, whole, canonical(request.kept), inputs)

    async def _live(self, seq: int, request: Contact) -> Step:
        log = self._attempt.log
        deadline = min(self._deadlines, key=lambda each: each.left_s, default=None)
        over = deadline is not None and deadline.left_s <= 0
        kind: StepKind = "limit" if over else request.kind
        entry = self._entry(seq, request, kind)
        if kind == "model":
            request = await self._announced(entry, request)
            if deadline is not None and deadline.left_s <= 0:  # after a wait for the budget
                await log.cancel(entry)
                over, entry = True, replace(entry, kind="limit")
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
            await log.cancel(entry)
            raise
        except RequestRefused as error:
            if not request.is_foreign:
                raise
            await log.cancel(entry)
            entry = replace(entry, kind="limit")
            result = CutOff(str(error), "refused")
        except OutOfTime as error:  # from a recorded model, which timed out
            result = CutOff(str(error))
        except ContextWindowExceeded as error:
            # The call is not billed. It is still recorded, because it decides the arm's next
            # action.
            await log.cancel(entry)
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
            await log.append(entry, encode(result), duration_s=duration, tree=tree)
        return Step(
            self._scope, seq, entry.kind, request.kept, entry.digest, result, started_at, duration
        )

    async def _announced(self, entry: Entry, request: Contact) -> Contact:
        """Record that a call is about to be made, and cancel that if the call is not allowed.

        Return the request to make, which may be a cheaper one than the given.

        Raises:
            BudgetExhausted: the call could cost more than is left.
            Interrupted: a stop was requested while the intent was being written.
        """
        request = await self._reserved(entry, request)
        try:
            self._attempt.may_go_on()
        except Interrupted:
            await self._attempt.log.cancel(entry)
            raise
        return request

    async def _reserved(self, entry: Entry, request: Contact) -> Contact:
        """Reserve the cost of a call, or of the dearest cheaper one that is allowed."""
        lowest_usd, refused = float("inf"), None
        for each in (request, *request.cheaper()):
            # In a thread: the first call may have to load a model's price list.
            ceiling_usd = await asyncio.to_thread(each.ceiling_usd)
            if refused is not None and (ceiling_usd is None or ceiling_usd >= lowest_usd):
                continue
            try:
                await self._attempt.log.intend(entry, ceiling_usd)
            except BudgetReserved:
                raise
            except BudgetExhausted as error:
                refused, lowest_usd = error, ceiling_usd or 0.0
            else:
                return each
        assert refused is not None, "the first was refused"
        raise refused

    async def _undone(self, error: Destroyed) -> CutOff:
        """Close a workspace that holds no repository.

        The next step opens a new one in the state after the last step.
        """
        await self._bench.close()
        return CutOff(f"{error}. Everything was put back to what it was before.", "destroyed")


def _may_change_files(kind: StepKind, result: Result) -> bool:
    if isinstance(result, CutOff):
        return kind == "command" and result.why == "time"
    return kind in ("command", "action")


__all__ = ["BASE", "Session"]
