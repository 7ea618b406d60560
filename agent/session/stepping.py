"""Make one step: answer it from the record, or run it under its limits and record it."""

import asyncio
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

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
from agent.journal import Inputs, NewStep, RecordedStep
from agent.models.protocol import Model, ModelReply
from agent.session.limits import (
    Deadline,
    Gate,
    get_covered_s,
    run_behind,
    run_in_turn,
)
from agent.session.log import StepLog
from agent.session.mail import Mail
from agent.session.reuse import Origins
from agent.session.steps import (
    LOWER_OUTPUT_LIMITS,
    ActionResult,
    Contact,
    CutOff,
    ModelCall,
    Result,
    Step,
    canonical,
    encode,
    from_record,
)
from agent.session.workbench import Workbench, Workbenches, Workspaces

_CUT_OFF: Mapping[str, type[AgentError]] = {
    "time": OutOfTime,
    "too_long": ContextWindowExceeded,
    "refused": RequestRefused,
    "destroyed": Undone,
    "failed": ToolFailed,
    "turn": TurnEnded,
}

_NO_DEADLINE = Deadline("", float("inf"))


@dataclass(frozen=True)
class Spent:
    """Answered model calls and their known cost."""

    calls: int = 0
    usd: float = 0.0

    def add(self, result: Result) -> "Spent":
        """Return the sum with the result of one more step."""
        if not isinstance(result, ModelReply):
            return self
        return Spent(self.calls + 1, self.usd + (result.usage.cost_usd or 0.0))


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
    benches: Workbenches
    origins: Origins = field(default_factory=Origins)
    turn_end: asyncio.Event | None = None
    """Set when a person ends the turn."""
    on_output: Callable[[str], None] = lambda output: None
    """Takes the whole output of a program that failed. It may block."""
    has_prices: bool = False
    """True if the price of a call was asked for, so that the models have loaded their lists."""
    spent: Spent = Spent()
    """The model calls of all runs, replayed or not."""
    steps: list[Step] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for step in self.recorded.values():
            if step.kind == "model" and step.result is not None:
                self.spent = self.spent.add(from_record(step).result)

    def events(self, name: str) -> list[Any]:
        """Return the readings of that name in earlier runs, replayed or not, and in this one."""
        earlier = (from_record(step) for step in self.recorded.values() if step.kind == "event")
        new = (step for step in self.steps if step.kind == "event" and not step.replayed)
        return [
            step.result.content
            for step in (*earlier, *new)
            if step.request.get("event") == name and isinstance(step.result, ActionResult)
        ]

    def has_more(self, scope: str) -> bool:
        """Return True if earlier runs have made steps in a scope that this one has not reached."""
        made = {(step.scope, step.seq) for step in self.steps}
        return any(
            step.result is not None and (step.scope, step.seq) not in made
            for step in self._list_recorded(scope)
        )

    def deadlines(self, scope: str, what: str, limit_s: float | None) -> list[Deadline]:
        """Return the deadline of a scope, shown as `what`; empty without a limit.

        Earlier runs have spent some of it, in the scope and in the scopes inside it.
        """
        if limit_s is None:
            return []
        return [Deadline(what, limit_s, get_covered_s(self._list_recorded(scope)))]

    def _list_recorded(self, scope: str) -> Iterator[RecordedStep]:
        """Yield the recorded steps of a scope and of the scopes inside it."""
        inside = f"{scope}/" if scope else ""
        for step in self.recorded.values():
            if step.scope == scope or step.scope.startswith(inside):
                yield step


class StepScope:
    """One scope of an attempt: its workspace, its limits, and its steps."""

    _next_seq = 0

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

    async def step_at(self, request: Contact, seq: int | None = None) -> Result:
        """Return the recorded result of a step, or run and record it. `seq` is its number.

        By default, it is the next step of the scope.

        Raises:
            CalledOff: a gate of the scope was closed.
            OutOfTime: the step was cut off, now or when it was recorded.
            ContextWindowExceeded: the model rejected the length, now or when it was recorded.
            ToolFailed: the work ends the attempt, now or when it was recorded.
            TurnEnded: a person ended the turn during the step, now or when it was recorded.
            Undone: the step left no repository, now or when it was recorded.
        """
        if seq is None:
            seq, self._next_seq = self._next_seq, self._next_seq + 1
        record = self.attempt.recorded.get((self.name, seq))
        if record is not None and record.result is not None:
            step = self._replay(record, request)
        else:
            for gate in self._gates:
                await gate.wait()
            # Steps in one workspace run, and see their changes recorded, one after another.
            alone = request.in_workspace or request.in_turn
            async with self._bench.turn if alone else nullcontext():
                for gate in self._gates:
                    await gate.wait()  # the step before it may have failed
                entry = self._enter(seq, request)
                reused = await self.attempt.log.find_reusable(entry)
                if reused is not None:
                    step = self._adopt(reused)
                else:
                    if self._deadline.left_s <= 0:
                        entry = replace(entry, kind="limit")
                    if entry.kind == "model":
                        entry, request = await self._intend(entry, request)
                    else:
                        await self.attempt.log.settle(entry.kind)
                    step = await self._run(entry, request)
            self.attempt.spent = self.attempt.spent.add(step.result)
        self.attempt.steps.append(step)
        self.attempt.on_step(step)
        if isinstance(step.result, CutOff):
            raise _CUT_OFF[step.result.why](step.result.cut_off)
        return step.result

    def _replay(self, record: RecordedStep, request: Contact) -> Step:
        # Steps copied to a fork are matched by position, since the fork's prompts can differ.
        is_same = record.copied or record.digest == request.digest
        if not is_same or record.kind not in (request.kind, "limit"):
            raise DivergenceError(
                self.attempt.attempt_id,
                record.scope,
                record.seq,
                record.request.decode("utf-8", "replace"),
                canonical(request.record).decode("utf-8", "replace"),
            )
        if record.tree is not None:
            self._bench.replay(record.tree, record.ordinal)
        return from_record(record)

    def _enter(self, seq: int, request: Contact) -> NewStep:
        """Return a step that is about to be made, unless it has to stop."""
        self._check_stop()
        if request.in_workspace:
            self._bench.catch_up()
        return NewStep(
            self.name,
            seq,
            request.kind,
            request.digest,
            canonical(request.record),
            self._bench.name if request.in_workspace else None,
            Inputs(self._bench.tree, request.inputs),
        )

    def _adopt(self, record: RecordedStep) -> Step:
        """Return a step with the result of another attempt."""
        for deadline in self._deadlines:
            deadline.spend(record.duration_s or 0.0)
        if record.tree is not None:
            self._bench.adopt(record.tree)
        return from_record(record)

    def _check_stop(self) -> None:
        """Check that a live step can start."""
        self.attempt.may_go_on()
        for gate in self._gates:
            gate.check()

    @property
    def _deadline(self) -> Deadline:
        """The deadline that ends first."""
        return min(self._deadlines, key=lambda deadline: deadline.left_s, default=_NO_DEADLINE)

    async def _intend(self, entry: NewStep, request: Contact) -> tuple[NewStep, Contact]:
        """Record that a model call is about to be made, with the highest output that is allowed.

        Return what to record, of kind `limit` if the time is over, and the request to make.
        """
        attempt, log, call = self.attempt, self.attempt.log, request.call
        assert call is not None, "it is a model call"
        if not (log.recorded or log.reuse):  # no step shows that there was a workspace
            await attempt.benches.main.probe()
        model, lowest_usd, refusal = call.model, float("inf"), BudgetExhausted("")
        for max_tokens in (call.request.max_tokens, *LOWER_OUTPUT_LIMITS):
            sent = replace(call.request, max_tokens=max_tokens)
            if attempt.has_prices:
                ceiling_usd = model.ceiling_usd(sent)
            else:
                ceiling_usd = await asyncio.to_thread(model.ceiling_usd, sent)  # may load prices
                attempt.has_prices = True
            if lowest_usd < float("inf") and (ceiling_usd is None or ceiling_usd >= lowest_usd):
                continue
            try:
                await log.intend(entry, ceiling_usd)
                break
            except BudgetReserved:
                raise
            except BudgetExhausted as error:
                refusal, lowest_usd = error, ceiling_usd or 0.0
        else:
            raise refusal
        try:
            self._check_stop()
        except (CalledOff, Interrupted):
            await log.cancel(entry)
            raise
        if self._deadline.left_s <= 0:  # after a wait for the budget
            await log.cancel(entry)
            return replace(entry, kind="limit"), request
        reserve = functools.partial(log.resend, entry, ceiling_usd)
        call = ModelCall(model, replace(sent, before_resend=reserve))
        return entry, replace(request, run=call.answer, call=call)

    async def _run(self, entry: NewStep, request: Contact) -> Step:
        """Run a request and record its result."""
        log, is_over = self.attempt.log, entry.kind == "limit"
        started_at, clock = datetime.now(UTC), time.perf_counter()
        entry, result = await self._execute(entry, request)
        duration = 0.0 if request.kind == "event" else time.perf_counter() - clock
        if entry.kind == "model":
            cost_usd = result.usage.cost_usd if isinstance(result, ModelReply) else None
            await log.record(entry, encode(result), cost_usd=cost_usd, duration_s=duration)
        else:
            may_change_files = request.in_workspace
            if isinstance(result, CutOff):
                may_change_files = request.kind == "command" and result.why == "time"
            tree = None
            if may_change_files and not is_over:
                try:
                    tree = await self._bench.save_change()
                except Destroyed as error:
                    result = await self._undo(error)
            await log.append(entry, encode(result), duration_s=duration, tree=tree)
        step = (self.name, entry.seq, entry.kind, request.record, entry.digest)
        return Step(*step, result, started_at, duration)

    async def _execute(self, entry: NewStep, request: Contact) -> tuple[NewStep, Result]:
        """Return the result of a request, and what to record: a `limit` without a paid answer."""
        log, deadline, turn_end = self.attempt.log, self._deadline, self.attempt.turn_end
        if entry.kind == "limit":
            return entry, CutOff(deadline.what)
        run = functools.partial(request.run, deadline.left_s)
        try:
            if entry.kind == "model":
                return entry, await run_in_turn(run, turn_end, is_call=True)
            # A closed gate ends everything but a model call, which is paid.
            try:
                turn_end = turn_end if request.ends_with_turn else None
                work = run_in_turn(run, turn_end, is_call=False)
                return entry, await run_behind(self._gates, work)
            except (asyncio.CancelledError, CalledOff, ToolFailed, TurnEnded):
                if request.in_workspace:
                    await self._bench.close()  # the work may have been interrupted at any point
                raise
        except TimeoutError:
            if deadline.left_s > 0:
                raise
            return entry, CutOff(deadline.what)
        except NotSent:
            await log.cancel(entry)
            raise
        except ModelError as error:
            if error.is_free:
                await log.cancel(entry)
            is_foreign = request.call is not None and request.call.request.foreign is not None
            if not (is_foreign and isinstance(error, RequestRefused)):
                raise
            return replace(entry, kind="limit"), CutOff(str(error), "refused")
        except OutOfTime as error:  # from a recorded model, which timed out
            return entry, CutOff(str(error))
        except ContextWindowExceeded as error:
            # The call is not billed. It is still recorded, because it decides the arm's next
            # action.
            await log.cancel(entry)
            return replace(entry, kind="limit"), CutOff(str(error), "too_long")
        except ToolFailed as error:
            return entry, CutOff(str(error), "failed")
        except TurnEnded as error:
            return entry, CutOff(str(error), "turn")
        except Destroyed as error:
            return entry, await self._undo(error)

    async def _undo(self, error: Destroyed) -> CutOff:
        """Close a workspace that holds no repository.

        The next step opens a new one in the state after the last step.
        """
        await self._bench.close()
        return CutOff(f"{error}. Everything was put back to what it was before.", "destroyed")
