"""The making of one step: answered from the record, or run under its limits and recorded."""

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
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
from agent.session.limits import (
    Deadline,
    Gate,
    call_within,
    get_covered_s,
    run_behind,
    work_within,
)
from agent.session.log import Entry, StepLog
from agent.session.mail import Mail
from agent.session.reuse import Origins
from agent.session.steps import (
    ActionResult,
    Contact,
    CutOff,
    Result,
    Step,
    canonical,
    encode,
    from_record,
)
from agent.session.workbench import Workbench, Workbenches, Workspaces

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
    def benches(self) -> Workbenches:
        """The workspaces of all scopes."""
        return Workbenches(self.workspaces, self.log)

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

    def deadlines(self, scope: str, what: str, limit_s: float | None) -> list[Deadline]:
        """Return the deadline of a scope, shown as `what`; empty without a limit.

        Earlier runs have spent some of it, in the scope and in the scopes inside it.
        """
        if limit_s is None:
            return []
        inside = f"{scope}/" if scope else ""
        steps = self.recorded.values()
        spent_s = get_covered_s(s for s in steps if s.scope == scope or s.scope.startswith(inside))
        return [Deadline(what, limit_s, spent_s)]


def _spent(result: Result) -> Spent:
    if not isinstance(result, ModelReply):
        return Spent()
    return Spent(1, result.usage.cost_usd or 0.0)


class StepScope:
    """One scope of an attempt: where its steps work, what limits them, and the making of each."""

    def __init__(
        self,
        attempt: AttemptState,
        name: str,
        bench: Workbench,
        deadlines: Sequence[Deadline] = (),
        gates: Sequence[Gate] = (),
    ) -> None:
        if name in attempt.scopes:
            raise ValueError(f"scope {name!r} was used before; its steps would be mistaken")
        attempt.scopes.add(name)
        self.attempt = attempt
        self.name = name
        """The path of the scope."""
        self.steps = attempt.steps
        """The steps of the attempt, in the order in which they finished."""
        self.workspaces = attempt.workspaces
        """The kind of place in which commands run."""
        self._bench, self._deadlines, self._gates = bench, deadlines, gates

    async def step_at(self, seq: int, request: Contact) -> Result:
        """Return the recorded result of the step of a number, or run and record it.

        Raises:
            CalledOff: a gate of the scope was closed.
            OutOfTime: the step was cut off, now or when it was recorded.
            ContextWindowExceeded: the model rejected the length, now or when it was recorded.
            ToolFailed: the work ends the attempt, now or when it was recorded.
            TurnEnded: a person ended the turn during the step, now or when it was recorded.
            Undone: the step left no repository, now or when it was recorded.
        """
        known, step = self.attempt.recorded.get((self.name, seq)), None
        if known is not None and known.result is not None:
            step = self._replay(known, request)
        else:
            await self._pass_gates()
            # Steps in one workspace run, and see their changes recorded, one after another.
            alone = request.in_workspace or request.in_turn
            async with self._bench.turn if alone else nullcontext():
                await self._pass_gates()  # the step before it may have failed
                self._may_go_on()
                entry = self._entry(seq, request)
                step = await self._reuse(entry)
                if step is None:
                    entry, request = await self._begin(entry, request)
                    step = await self._run(entry, request)
        self.attempt.steps.append(step)
        self.attempt.on_step(step)
        if isinstance(step.result, CutOff):
            raise _CUT_OFF[step.result.why](step.result.cut_off)
        return step.result

    def _replay(self, known: RecordedStep, request: Contact) -> Step:
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
            self._bench.replay(known.tree, known.ordinal)
        return from_record(known)

    async def _reuse(self, entry: Entry) -> Step | None:
        """Return the step with the result of another attempt, or None if none has its inputs."""
        known = await self.attempt.log.find_reusable(entry)
        if known is None:
            return None
        for deadline in self._deadlines:
            deadline.spend(known.duration_s or 0.0)
        if known.tree is not None:
            self._bench.adopt(known.tree)
        return from_record(known)

    def _entry(self, seq: int, request: Contact) -> Entry:
        if request.in_workspace:
            self._bench.catch_up()
        return Entry(
            self.name,
            seq,
            request.kind,
            request.digest,
            canonical(request.kept),
            self._bench.name if request.in_workspace else None,
            Inputs(self._bench.tree, request.inputs),
        )

    async def _pass_gates(self) -> None:
        """Wait until a live step may begin.

        Raises:
            CalledOff: a gate of the scope was closed.
        """
        for gate in self._gates:
            await gate.wait()

    def _may_go_on(self) -> None:
        """Check that a live step may begin.

        Raises:
            Interrupted: the attempt has to stop.
            CalledOff: a gate of the scope was closed.
        """
        self.attempt.may_go_on()
        for gate in self._gates:
            gate.check()

    @property
    def _deadline(self) -> Deadline | None:
        """The deadline that ends first; None without a limit."""
        return min(self._deadlines, key=lambda each: each.left_s, default=None)

    async def _begin(self, entry: Entry, request: Contact) -> tuple[Entry, Contact]:
        """Record that a call is about to be made, or what other work may depend on.

        Return what to record, of kind `limit` if the time is over, and the request to make. It is
        the dearest of the given and the cheaper ones that is allowed.

        Raises:
            BudgetExhausted: the call could cost more than is left.
            CalledOff, Interrupted: it has to stop since the intent was being written.
        """
        log, limited = self.attempt.log, replace(entry, kind="limit")
        if self._is_over():
            entry = limited
        if entry.kind != "model":
            await log.settle(entry.kind)
            return entry, request
        await self.attempt.benches.probe()
        lowest_usd, refused = float("inf"), BudgetExhausted("")
        for each in request.dearest_first():
            ceiling_usd = await self._ceiling_usd(each)
            if lowest_usd < float("inf") and (ceiling_usd is None or ceiling_usd >= lowest_usd):
                continue
            try:
                await log.intend(entry, ceiling_usd)
                break
            except BudgetReserved:
                raise
            except BudgetExhausted as error:
                refused, lowest_usd = error, ceiling_usd or 0.0
        else:
            raise refused
        try:
            self._may_go_on()
        except (CalledOff, Interrupted):
            await log.cancel(entry)
            raise
        if self._is_over():  # after a wait for the budget
            await log.cancel(entry)
            return limited, each
        return entry, each.with_resend(lambda: log.resend(entry, each.ceiling_usd()))

    def _is_over(self) -> bool:
        return any(deadline.left_s <= 0 for deadline in self._deadlines)

    async def _ceiling_usd(self, request: Contact) -> float | None:
        """Return the highest possible cost of a call, or None if it is unknown."""
        if self.attempt.has_prices:
            return request.ceiling_usd()
        ceiling_usd = await asyncio.to_thread(request.ceiling_usd)  # may load the price list
        self.attempt.has_prices = True
        return ceiling_usd

    async def _run(self, entry: Entry, request: Contact) -> Step:
        """Run a request and record its result."""
        log, over = self.attempt.log, entry.kind == "limit"
        started_at, clock = datetime.now(UTC), time.perf_counter()
        entry, result = await self._result(entry, request)
        duration = 0.0 if request.kind == "event" else time.perf_counter() - clock
        if entry.kind == "model":
            cost_usd = result.usage.cost_usd if isinstance(result, ModelReply) else None
            await log.record(entry, encode(result), cost_usd=cost_usd, duration_s=duration)
        else:
            tree = None
            if not over and _may_change_files(request, result):
                try:
                    tree = await self._bench.save_change()
                except Destroyed as error:
                    result = await self._undo(error)
            await log.append(entry, encode(result), duration_s=duration, tree=tree)
        asked, kind = (request.kept, entry.digest), entry.kind
        return Step(self.name, entry.seq, kind, *asked, result, started_at, duration)

    async def _result(self, entry: Entry, request: Contact) -> tuple[Entry, Result]:
        """Return the result of a request, and what to record: a `limit` without a paid answer."""
        log, limited, deadline = self.attempt.log, replace(entry, kind="limit"), self._deadline
        if entry.kind == "limit":
            assert deadline is not None, "its time is over"
            return entry, CutOff(deadline.what)
        try:
            left_s = float("inf") if deadline is None else deadline.left_s
            return entry, await self._execute(request, left_s)
        except TimeoutError:
            if deadline is None or deadline.left_s > 0:
                raise
            return entry, CutOff(deadline.what)
        except NotSent:
            await log.cancel(entry)
            raise
        except ModelError as error:
            if error.is_free:
                await log.cancel(entry)
            if not (request.is_foreign and isinstance(error, RequestRefused)):
                raise
            return limited, CutOff(str(error), "refused")
        except OutOfTime as error:  # from a recorded model, which timed out
            return entry, CutOff(str(error))
        except ContextWindowExceeded as error:
            # The call is not billed. It is still recorded, because it decides the arm's next
            # action.
            await log.cancel(entry)
            return limited, CutOff(str(error), "too_long")
        except ToolFailed as error:
            return entry, CutOff(str(error), "failed")
        except TurnEnded as error:
            return entry, CutOff(str(error), "turn")
        except Destroyed as error:
            return entry, await self._undo(error)

    async def _execute(self, request: Contact, left_s: float) -> Result:
        """Execute a request. A closed gate ends everything but a model call, which is paid."""
        run = functools.partial(request.run, left_s)
        if request.kind == "model":
            return await call_within(run, self.attempt.turn_end)
        turn_end = self.attempt.turn_end if request.ends_with_turn else None
        try:
            return await run_behind(self._gates, work_within(run, turn_end))
        except (asyncio.CancelledError, CalledOff, ToolFailed, TurnEnded):
            if request.in_workspace:
                await self._bench.close()  # the work may have been interrupted at any point
            raise

    async def _undo(self, error: Destroyed) -> CutOff:
        """Close a workspace that holds no repository.

        The next step opens a new one in the state after the last step.
        """
        await self._bench.close()
        return CutOff(f"{error}. Everything was put back to what it was before.", "destroyed")


def _may_change_files(request: Contact, result: Result) -> bool:
    if isinstance(result, CutOff):
        return request.kind == "command" and result.why == "time"
    return request.in_workspace
