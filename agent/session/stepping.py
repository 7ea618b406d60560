"""The making of one step: answered from the record, or run under its limits and recorded."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from agent.errors import (
    AgentError,
    BudgetExhausted,
    BudgetReserved,
    CalledOff,
    ContextWindowExceeded,
    Destroyed,
    DivergenceError,
    Interrupted,
    ModelError,
    NotSent,
    OutOfTime,
    RequestRefused,
    ToolFailed,
    TurnEnded,
    Undone,
)
from agent.journal import Inputs, RecordedStep
from agent.models.protocol import Model, ModelReply
from agent.session import gates, turns
from agent.session.ahead import Ahead
from agent.session.contacts import Contact
from agent.session.deadlines import Deadline, covered_s
from agent.session.gates import Gate
from agent.session.log import Entry, StepLog
from agent.session.mail import Mail
from agent.session.reuse import Origins
from agent.session.steps import (
    ActionResult,
    CutOff,
    Result,
    Step,
    canonical,
    encode,
    from_record,
)
from agent.session.workbench import Workbench, Workspaces

T = TypeVar("T")

_CUT_OFF: Mapping[str, type[AgentError]] = {
    "time": OutOfTime,
    "too_long": ContextWindowExceeded,
    "refused": RequestRefused,
    "destroyed": Undone,
    "failed": ToolFailed,
    "turn": TurnEnded,
}


@dataclass(frozen=True)
class Spent:
    """Answered model calls and their known cost."""

    calls: int = 0
    usd: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.calls + other.calls, self.usd + other.usd)


@dataclass
class AttemptState:
    """State that all scopes of an attempt share."""

    attempt_id: str
    models: Mapping[str, Model]
    workspaces: Workspaces
    log: StepLog
    on_step: Callable[[Step], None]
    may_go_on: Callable[[], None]
    mail: Mail
    recorded: dict[tuple[str, int], RecordedStep]
    origins: Origins = field(default_factory=Origins)
    turn_end: asyncio.Event | None = None
    """Set when a person ends the turn."""
    has_prices: bool = False
    """True if the price of a call was asked for, so that the models have loaded their lists."""
    steps: list[Step] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)

    @functools.cached_property
    def ahead(self) -> Ahead:
        """The workspaces that open or close beside the steps."""
        return Ahead(self.workspaces, self.log)

    @property
    def spent(self) -> Spent:
        """The model calls of earlier runs, replayed or not, and those of this run."""
        new = (_spent(step.result) for step in self.steps if self._is_new(step))
        return sum(new, self._spent_before)

    def _is_new(self, step: Step) -> bool:
        """Return True if no earlier run recorded the step. It may be reused from a parent."""
        known = self.recorded.get((step.scope, step.seq))
        return known is None or known.result is None

    @functools.cached_property
    def _spent_before(self) -> Spent:
        known = self.recorded.values()
        calls = (each for each in known if each.kind == "model" and each.result is not None)
        return sum((_spent(from_record(each).result) for each in calls), Spent())

    def events(self, name: str) -> list[Any]:
        """Return the readings of that name in earlier runs, replayed or not, and in this one."""
        known = (from_record(each) for each in self.recorded.values() if each.kind == "event")
        new = (step for step in self.steps if step.kind == "event" and not step.replayed)
        return [
            step.result.content
            for step in (*known, *new)
            if step.request.get("event") == name and isinstance(step.result, ActionResult)
        ]

    def spent_s(self, scope: str) -> float:
        """Return the seconds that earlier runs spent in a scope and the scopes inside it."""
        inside = f"{scope}/" if scope else ""
        steps = self.recorded.values()
        return covered_s(s for s in steps if s.scope == scope or s.scope.startswith(inside))

    def deadlines(self, scope: str, what: str, limit_s: float | None) -> list[Deadline]:
        """Return the deadline of a scope, shown as `what`; empty without a limit."""
        return [] if limit_s is None else [Deadline(what, limit_s, self.spent_s(scope))]


def _spent(result: Result) -> Spent:
    if not isinstance(result, ModelReply):
        return Spent()
    return Spent(1, result.usage.cost_usd or 0.0)


@dataclass(frozen=True)
class StepScope:
    """One scope of an attempt: where its steps work, and what limits them."""

    attempt: AttemptState
    scope: str
    bench: Workbench
    deadlines: Sequence[Deadline] = ()
    gates: Sequence[Gate] = ()

    async def step(self, seq: int, request: Contact) -> Result:
        """Return the recorded result, or run the step and record it.

        Raises:
            CalledOff: a gate of the scope was closed.
            OutOfTime: the step was cut off, now or when it was recorded.
            ContextWindowExceeded: the model rejected the length, now or when it was recorded.
            ToolFailed: the work ends the attempt, now or when it was recorded.
            TurnEnded: a person ended the turn during the step, now or when it was recorded.
            Undone: the step left no repository, now or when it was recorded.
        """
        known = self.attempt.recorded.get((self.scope, seq))
        if known is not None and known.result is not None:
            step = self._replayed(known, request)
        else:
            await self._passed()
            async with self._turn(request):
                await self._passed()  # the step before it may have failed
                self._may_go_on()
                entry = self._entry(seq, request)
                step = await self._reused(entry) or await self._live(entry, request)
        self.attempt.steps.append(step)
        self.attempt.on_step(step)
        if isinstance(step.result, CutOff):
            raise _CUT_OFF[step.result.why](step.result.cut_off)
        return step.result

    def _replayed(self, known: RecordedStep, request: Contact) -> Step:
        # Steps copied to a fork are matched by position, since the fork's prompts may differ.
        is_same = known.copied or known.digest == request.digest
        if not is_same or known.kind not in (request.kind, "limit"):
            raise DivergenceError(
                self.attempt.attempt_id,
                known.scope,
                known.seq,
                known.request.decode("utf-8", "replace"),
                canonical(request.kept).decode("utf-8", "replace"),
            )
        if known.tree is not None:
            self.bench.replayed(known.tree, known.ordinal)
        return from_record(known)

    async def _reused(self, entry: Entry) -> Step | None:
        """Return the step with the result of another attempt, or None if none has its inputs."""
        known = await self.attempt.log.reused(entry)
        if known is None:
            return None
        for deadline in self.deadlines:
            deadline.spend(known.duration_s or 0.0)
        if known.tree is not None:
            self.bench.adopt(known.tree)
        return from_record(known)

    def _entry(self, seq: int, request: Contact) -> Entry:
        if request.in_workspace:
            self.bench.catch_up()
        return Entry(
            self.scope,
            seq,
            request.kind,
            request.digest,
            canonical(request.kept),
            self.bench.name if request.in_workspace else None,
            Inputs(self.bench.tree, request.inputs),
        )

    @asynccontextmanager
    async def _turn(self, request: Contact) -> AsyncIterator[None]:
        """Let steps in one workspace run, and see their changes recorded, one after another."""
        if not (request.in_workspace or request.in_turn):
            yield
            return
        async with self.bench.turn:
            yield

    async def _passed(self) -> None:
        """Wait until a live step may begin.

        Raises:
            CalledOff: a gate of the scope was closed.
        """
        for gate in self.gates:
            await gate.passed()

    def _may_go_on(self) -> None:
        """Check that a live step may begin.

        Raises:
            Interrupted: the attempt has to stop.
            CalledOff: a gate of the scope was closed.
        """
        self.attempt.may_go_on()
        for gate in self.gates:
            gate.check()

    async def _live(self, entry: Entry, request: Contact) -> Step:
        log = self.attempt.log
        deadline = min(self.deadlines, key=lambda each: each.left_s, default=None)
        over = deadline is not None and deadline.left_s <= 0
        if over:
            entry = replace(entry, kind="limit")
        if entry.kind == "model":
            await self.attempt.ahead.probe()
            request = await self._announced(entry, request)
            if deadline is not None and deadline.left_s <= 0:  # after a wait for the budget
                await log.cancel(entry)
                over, entry = True, replace(entry, kind="limit")
        else:
            await log.settle(entry.kind)
        started_at, clock = datetime.now(UTC), time.perf_counter()
        result: Result
        try:
            if deadline is None:
                result = await self._run(request, float("inf"))
            elif over:
                result = CutOff(deadline.what)
            else:
                result = await self._run(request, deadline.left_s)
        except TimeoutError:
            if deadline is None or deadline.left_s > 0:
                raise
            result = CutOff(deadline.what)
        except NotSent:
            await log.cancel(entry)
            raise
        except ModelError as error:
            if error.is_free:
                await log.cancel(entry)
            if not (request.is_foreign and isinstance(error, RequestRefused)):
                raise
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
        except ToolFailed as error:
            result = CutOff(str(error), "failed")
        except TurnEnded as error:
            result = CutOff(str(error), "turn")
        except Destroyed as error:
            result = await self._undone(error)
        duration = 0.0 if request.kind == "event" else time.perf_counter() - clock
        if entry.kind == "model":
            cost_usd = result.usage.cost_usd if isinstance(result, ModelReply) else None
            await log.record(entry, encode(result), cost_usd=cost_usd, duration_s=duration)
        else:
            tree = None
            if not over and _may_change_files(request, result):
                try:
                    tree = await self.bench.changed()
                except Destroyed as error:
                    result = await self._undone(error)
            await log.append(entry, encode(result), duration_s=duration, tree=tree)
        return Step(
            self.scope,
            entry.seq,
            entry.kind,
            request.kept,
            entry.digest,
            result,
            started_at,
            duration,
        )

    async def off_the_clock(self, waiting: Awaitable[T]) -> T:
        """Return the result of a wait whose time counts for no limit of this line of work."""
        began = time.monotonic()
        try:
            return await waiting
        finally:
            for deadline in self.deadlines:
                deadline.spend(began - time.monotonic())

    async def _run(self, request: Contact, left_s: float) -> Result:
        """Run a request. A closed gate ends everything but a model call, which is paid."""
        run = functools.partial(request.run, left_s)
        if request.kind == "model":
            return await turns.call_within(run, self.attempt.turn_end)
        turn_end = self.attempt.turn_end if request.ends_with_turn else None
        try:
            return await gates.run(self.gates, turns.work_within(run, turn_end))
        except (asyncio.CancelledError, CalledOff, ToolFailed, TurnEnded):
            if request.in_workspace:
                await self.bench.close()  # the work may have been interrupted at any point
            raise

    async def _announced(self, entry: Entry, request: Contact) -> Contact:
        """Record that a call is about to be made, and cancel that if the call is not allowed.

        Return the request to make, which may be a cheaper one than the given.

        Raises:
            BudgetExhausted: the call could cost more than is left.
            CalledOff, Interrupted: it has to stop since the intent was being written.
        """
        request = await self._reserved(entry, request)
        try:
            self._may_go_on()
        except (CalledOff, Interrupted):
            await self.attempt.log.cancel(entry)
            raise
        return request.with_resend(lambda: self.attempt.log.resend(entry, request.ceiling_usd()))

    async def _reserved(self, entry: Entry, request: Contact) -> Contact:
        """Reserve the cost of a call, or of the dearest cheaper one that is allowed."""
        lowest_usd, refused = float("inf"), None
        for each in request.dearest_first():
            ceiling_usd = await self._ceiling_usd(each)
            if refused is not None and (ceiling_usd is None or ceiling_usd >= lowest_usd):
                continue
            try:
                await self.attempt.log.intend(entry, ceiling_usd)
            except BudgetReserved:
                raise
            except BudgetExhausted as error:
                refused, lowest_usd = error, ceiling_usd or 0.0
            else:
                return each
        assert refused is not None, "the first was refused"
        raise refused

    async def _ceiling_usd(self, request: Contact) -> float | None:
        """Return the highest possible cost of a call, or None if it is unknown."""
        if self.attempt.has_prices:
            return request.ceiling_usd()
        ceiling_usd = await asyncio.to_thread(request.ceiling_usd)  # may load the price list
        self.attempt.has_prices = True
        return ceiling_usd

    async def _undone(self, error: Destroyed) -> CutOff:
        """Close a workspace that holds no repository.

        The next step opens a new one in the state after the last step.
        """
        await self.bench.close()
        return CutOff(f"{error}. Everything was put back to what it was before.", "destroyed")


def _may_change_files(request: Contact, result: Result) -> bool:
    if isinstance(result, CutOff):
        return request.kind == "command" and result.why == "time"
    return request.in_workspace
