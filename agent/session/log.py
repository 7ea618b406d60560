"""The log in which a session records its steps.

A model call costs money, so it is written before and after the call. Any other step is written
once, after it ran: if it is cut off, it leaves no bill, and its workspace is restored to the state
after the last recorded step. So a step in a workspace may wait for the intent of the next call, and
both are written in one transaction. An event may wait too: it is a reading that can be made again.
So may a step that another attempt answers, which it can do again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from agent.errors import BudgetReserved, InfrastructureError, InvalidSpec
from agent.journal import (
    AdoptedStep,
    EndedStep,
    FreeStep,
    InboxMessage,
    Journal,
    Lease,
    Limit,
    NewStep,
    RecordedStep,
    Reservation,
    StepKind,
    TreeRef,
    Wanted,
)
from agent.journal.bells import Bell, ring
from agent.journal.blobs import Blobs
from agent.session.reuse import Reuse
from agent.workspaces import Checkpoint

HOLD_S = 0.1
"""Steps are written after this time even without an intent. An arm needs less for its next call."""

BUDGET_POLL_S = 0.5
"""Interval between checks whether calls in flight have left enough of a budget for the next one."""

BUDGET_PATIENCE_S = 900.0
"""A call waits this long for others to settle before its budget counts as exhausted."""


class StepLog:
    """The log of a session: by itself in memory, for attempts not worth resuming.

    Such a log only remembers work trees. Every method may raise the errors of its journal.
    """

    recorded: Sequence[RecordedStep]
    """The steps of earlier runs of the attempt."""
    reuse: Reuse | None = None
    """The steps of the attempt that this one was forked from, if they may answer."""

    def __init__(self) -> None:
        self.recorded = ()
        self._trees: dict[str, Checkpoint] = {}

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        """Save a work tree. Return a reference to it for `load_tree` and `append`."""
        self._trees[checkpoint.tree] = checkpoint
        return TreeRef(checkpoint.tree, "in-memory")

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        """Load the work tree that `save_tree` returned this reference for."""
        return self._trees[tree.tree]

    async def intend(self, call: NewStep, ceiling_usd: float | None) -> None:
        """Record that a call is about to be made, and reserve its highest possible cost.

        This may wait for calls in flight to settle.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing is written.
            Interrupted: a stop was requested during the wait; nothing is written.
            InvalidSpec: the highest cost is unknown, and a budget in USD has to be kept.
        """

    async def resend(self, call: NewStep, ceiling_usd: float | None) -> None:
        """Reserve the cost of an intended call once more. Its first request is billed as lost.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing is written.
            Interrupted: a stop was requested while it waited for calls in flight.
        """

    async def record(
        self, call: NewStep, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        """Record the result of an intended call."""

    async def cancel(self, call: NewStep) -> None:
        """Cancel an intent whose call cost nothing."""

    async def append(
        self, step: NewStep, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        """Record a step that costs nothing, with its work tree if that changed.

        A step in a workspace and an event may be recorded later: with the next intent, or by
        `flush`.
        """

    async def flush(self) -> None:
        """Record every step."""

    async def settle(self, kind: StepKind) -> None:
        """Record the steps that can decide the effects of a step of this kind.

        No step waits for reused ones, and a reading does not wait for readings, so that the steps
        of concurrent scopes keep the order in which they were asked for.
        """

    async def find_reusable(self, step: NewStep) -> RecordedStep | None:
        """Return the same step of another attempt, or None. It may be recorded later."""
        return None

    async def messages(self, after: int) -> Sequence[InboxMessage]:
        """Return the messages of the inbox after a position, in order."""
        return ()

    async def begin_wait(self, wanted: Wanted, about: str, after: int) -> None:
        """State the reason of a wait, and the position of the last message that was read."""

    def listen(self) -> Bell:
        """Return a bell that rings when a message comes."""
        return Bell("")


@dataclass
class JournalLog(StepLog):
    """A log in the journal, for the holder of an attempt's lease.

    The journal blocks, so each use of it runs in a thread. Steps that are over wait for the next
    intent of their attempt, for `HOLD_S` at most. Then a command, or the reading of a message, and
    the model call after it need one transaction instead of two, and all the steps in a row that
    another attempt answers need one. Until a step is written, nothing outside this process depends
    on its result: no call that contains it is sent, no person is asked, and no step that has
    effects starts. A crash therefore repeats the step as if it had never ended.
    """

    journal: Journal
    lease: Lease
    blobs: Blobs
    recorded: Sequence[RecordedStep]
    limits: tuple[Limit, ...] = ()
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    """Waits, or raises Interrupted as soon as the run is asked to stop."""
    reuse: Reuse | None = None
    _ended: list[EndedStep] = field(default_factory=list, init=False)
    """Steps that are not in the journal yet, in the order of their ends."""
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Held by each write: no other one may overtake the steps that it depends on."""
    _later: asyncio.Task[None] | None = field(default=None, init=False)

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        # Stored before a step refers to it.
        delta = await asyncio.to_thread(self.blobs.put, checkpoint.delta)
        return TreeRef(checkpoint.tree, delta)

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        return Checkpoint(tree.tree, await asyncio.to_thread(self.blobs.get, tree.delta))

    async def intend(self, call: NewStep, ceiling_usd: float | None) -> None:
        if ceiling_usd is None and any(limit.usd is not None for limit in self.limits):
            raise InvalidSpec(
                "a budget in USD cannot be kept for a model of unknown price: declare its "
                "input_cost_per_token and output_cost_per_token, or limit calls instead"
            )
        reservation = Reservation(ceiling_usd, self.limits)

        async def write() -> None:
            async with self._writing:
                ended = tuple(self._ended)
                await asyncio.to_thread(
                    self.journal.intend, self.lease, call, reservation, after=ended
                )
                del self._ended[: len(ended)]

        await self._wait_for_budget(write)

    async def resend(self, call: NewStep, ceiling_usd: float | None) -> None:
        values = (self.lease, call.scope, call.seq, Reservation(ceiling_usd, self.limits))
        await self._wait_for_budget(lambda: asyncio.to_thread(self.journal.resend, *values))

    async def _wait_for_budget(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write a reservation when calls in flight have left enough of the budget for it."""
        until = time.monotonic() + BUDGET_PATIENCE_S
        while True:
            try:
                return await write()
            except BudgetReserved:
                if time.monotonic() >= until:
                    raise
                await self.sleep(BUDGET_POLL_S)

    async def record(
        self, call: NewStep, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        await asyncio.to_thread(
            self.journal.record,
            self.lease,
            call.scope,
            call.seq,
            result,
            cost_usd=cost_usd,
            duration_s=duration_s,
            tree=None,
        )

    async def cancel(self, call: NewStep) -> None:
        await asyncio.to_thread(self.journal.cancel, self.lease, call.scope, call.seq)

    async def append(
        self, step: NewStep, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        self._add(FreeStep(step, result, duration_s, tree))
        if step.bench is None and step.kind != "event":
            await self.flush()  # it may have had effects that nothing undoes before a repetition

    async def flush(self) -> None:
        if not self._ended:
            return
        async with self._writing:
            if ended := tuple(self._ended):
                await asyncio.to_thread(self.journal.append, self.lease, *ended)
                del self._ended[: len(ended)]

    async def settle(self, kind: StepKind) -> None:
        # Steps with effects do not wait for a reused one, whose result every run repeats.
        kinds = {step.step.kind for step in self._ended if isinstance(step, FreeStep)}
        if kinds - ({"event"} if kind == "event" else set()):
            await self.flush()

    async def find_reusable(self, step: NewStep) -> RecordedStep | None:
        if self.reuse is None:
            return None
        record = self.reuse.answer(step.scope, step.seq, step.kind, step.digest, step.inputs)
        if record is None:
            return None
        edited = self.reuse.get_edit(step.scope, step.seq)
        self._add(AdoptedStep(self.reuse.parent_id, step.scope, step.seq, step.inputs, edited))
        return record if edited is None else replace(record, result=edited)

    async def messages(self, after: int) -> Sequence[InboxMessage]:
        inbox = self.journal.inbox(self.lease.attempt_id)
        return await asyncio.to_thread(inbox.read, after)

    async def begin_wait(self, wanted: Wanted, about: str, after: int) -> None:
        await self.flush()  # a person may decide by the effects of these steps
        inbox = self.journal.inbox(self.lease.attempt_id)
        await asyncio.to_thread(inbox.begin_wait, self.lease, wanted, about, after)
        ring(self.lease.attempt_id)

    def listen(self) -> Bell:
        return Bell(self.lease.attempt_id, self.journal.database)

    def _add(self, step: EndedStep) -> None:
        """Let a step wait for the next write."""
        self._ended.append(step)
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await asyncio.sleep(HOLD_S)
        with suppress(InfrastructureError):  # the next write meets the same error
            await self.flush()
