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
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

from agent.errors import BudgetReserved, InvalidSpec
from agent.journal import (
    UNKNOWN_INPUTS,
    AdoptedStep,
    FreeStep,
    InboxMessage,
    Inputs,
    Journal,
    Lease,
    Limit,
    RecordedStep,
    Reservation,
    TreeRef,
    Wanted,
)
from agent.journal.blobs import Blobs
from agent.session.reuse import Reuse
from agent.session.steps import StepKind
from agent.session.unwritten import Unwritten
from agent.workspaces.protocol import Checkpoint

BUDGET_POLL_S = 0.5
"""Interval between checks whether calls in flight have left enough of a budget for the next one."""

BUDGET_PATIENCE_S = 900.0
"""A call waits this long for others to settle before its budget counts as exhausted."""


@dataclass(frozen=True)
class Entry:
    """A step without its result."""

    scope: str
    seq: int
    kind: StepKind
    digest: str
    request: bytes
    bench: str | None = None
    """The branch in whose workspace the step works; None if it works in none."""
    inputs: Inputs = UNKNOWN_INPUTS


class StepLog(Protocol):
    """The log interface that a session needs. Every method may raise the errors of its journal."""

    @property
    def recorded(self) -> Sequence[RecordedStep]:
        """The steps of earlier runs of the attempt."""
        ...

    @property
    def reuses(self) -> bool:
        """True if steps of another attempt may answer, so that copied ones are those that did."""
        ...

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        """Save a work tree. Return a reference to it for `load_tree` and `append`."""
        ...

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        """Load the work tree that `save_tree` returned this reference for."""
        ...

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        """Record that a call is about to be made, and reserve its highest possible cost.

        This may wait for calls in flight to settle.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing is written.
            Interrupted: a stop was requested during the wait; nothing is written.
            InvalidSpec: the highest cost is unknown, and a budget in USD has to be kept.
        """
        ...

    async def resend(self, call: Entry, ceiling_usd: float | None) -> None:
        """Reserve the cost of an intended call once more. Its first request is billed as lost.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing is written.
            Interrupted: a stop was requested while it waited for calls in flight.
        """
        ...

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        """Record the result of an intended call."""
        ...

    async def cancel(self, call: Entry) -> None:
        """Cancel an intent whose call cost nothing."""
        ...

    async def append(
        self, step: Entry, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        """Record a step that costs nothing, with its work tree if that changed.

        A step in a workspace and an event may be recorded later: with the next intent, or by
        `flush`.
        """
        ...

    async def flush(self) -> None:
        """Record every step."""
        ...

    async def settle(self, kind: StepKind) -> None:
        """Record the steps on which the effects of a step of this kind may depend.

        No step waits for reused ones, and a reading does not wait for readings, so that the steps
        of concurrent scopes keep the order in which they were asked for.
        """
        ...

    async def reused(self, step: Entry) -> RecordedStep | None:
        """Return the same step of another attempt, or None. It may be recorded later."""
        ...

    def parent_request(self, scope: str, seq: int) -> bytes | None:
        """Return the request of the step of a reused attempt at a position, if there is one."""
        ...

    async def messages(self, after: int) -> Sequence[InboxMessage]:
        """Return the messages of the inbox after a position, in order."""
        ...

    async def begin_wait(self, wanted: Wanted, about: str, after: int) -> None:
        """State what the attempt waits for, and which message it has read last."""
        ...


class NoLog:
    """A log in memory for attempts not worth resuming. It only remembers work trees."""

    recorded: Sequence[RecordedStep] = ()
    reuses = False

    def __init__(self) -> None:
        self._trees: dict[str, Checkpoint] = {}

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        self._trees[checkpoint.tree] = checkpoint
        return TreeRef(checkpoint.tree, "in-memory")

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        return self._trees[tree.tree]

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        return

    async def resend(self, call: Entry, ceiling_usd: float | None) -> None:
        return

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        return

    async def cancel(self, call: Entry) -> None:
        return

    async def append(
        self, step: Entry, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        return

    async def flush(self) -> None:
        return

    async def settle(self, kind: StepKind) -> None:
        return

    async def reused(self, step: Entry) -> RecordedStep | None:
        return None

    def parent_request(self, scope: str, seq: int) -> bytes | None:
        return None

    async def messages(self, after: int) -> Sequence[InboxMessage]:
        return ()

    async def begin_wait(self, wanted: Wanted, about: str, after: int) -> None:
        return


@dataclass(frozen=True)
class JournalLog:
    """A log in the journal, for the holder of an attempt's lease.

    The journal blocks, so each use of it runs in a thread.
    """

    journal: Journal
    lease: Lease
    blobs: Blobs
    recorded: Sequence[RecordedStep]
    limits: tuple[Limit, ...] = ()
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    """Waits, or raises Interrupted as soon as the run is asked to stop."""
    reuse: Reuse | None = None
    """The steps of the attempt that this one was forked from, if they may answer."""

    @property
    def reuses(self) -> bool:
        return self.reuse is not None

    @cached_property
    def _unwritten(self) -> Unwritten:
        return Unwritten(lambda steps: self.journal.append(self.lease, *steps))

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        """Store the delta of a work tree, before a step refers to it. Return the reference."""
        delta = await asyncio.to_thread(self.blobs.put, checkpoint.delta)
        return TreeRef(checkpoint.tree, delta)

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        return Checkpoint(tree.tree, await asyncio.to_thread(self.blobs.get, tree.delta))

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        if ceiling_usd is None and any(limit.usd is not None for limit in self.limits):
            raise InvalidSpec(
                "a budget in USD cannot be kept for a model of unknown price: declare its "
                "input_cost_per_token and output_cost_per_token, or limit calls instead"
            )
        reservation = Reservation(ceiling_usd, self.limits)

        async def intend() -> None:
            async with self._unwritten.handed_over() as steps:
                await asyncio.to_thread(
                    self.journal.intend,
                    self.lease,
                    call.scope,
                    call.seq,
                    call.kind,
                    call.digest,
                    call.request,
                    reservation,
                    call.inputs,
                    after=steps,
                )

        await self._patiently(intend)

    async def resend(self, call: Entry, ceiling_usd: float | None) -> None:
        reservation = Reservation(ceiling_usd, self.limits)
        resend = partial(self.journal.resend, self.lease, call.scope, call.seq, reservation)
        await self._patiently(lambda: asyncio.to_thread(resend))

    async def _patiently(self, reserve: Callable[[], Awaitable[None]]) -> None:
        """Reserve something, and wait while calls in flight have reserved what it needs.

        Raises:
            BudgetExhausted: a limit does not allow it.
        """
        until = time.monotonic() + BUDGET_PATIENCE_S
        while True:
            try:
                return await reserve()
            except BudgetReserved:
                if time.monotonic() >= until:
                    raise
            await self.sleep(BUDGET_POLL_S)

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
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

    async def cancel(self, call: Entry) -> None:
        await asyncio.to_thread(self.journal.cancel, self.lease, call.scope, call.seq)

    async def append(
        self, step: Entry, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        self._unwritten.add(
            FreeStep(
                step.scope,
                step.seq,
                step.kind,
                step.digest,
                step.request,
                result,
                duration_s,
                tree,
                step.bench,
                step.inputs,
            )
        )
        if step.bench is None and step.kind != "event":
            await self.flush()  # it may have had effects that nothing undoes before a repetition

    async def flush(self) -> None:
        await self._unwritten.write()

    async def settle(self, kind: StepKind) -> None:
        if self._unwritten.kinds - ({"event"} if kind == "event" else set()):
            await self.flush()

    async def reused(self, step: Entry) -> RecordedStep | None:
        if self.reuse is None:
            return None
        known = self.reuse.answer(step.scope, step.seq, step.kind, step.digest, step.inputs)
        if known is None:
            return None
        edited = self.reuse.edited(step.scope, step.seq)
        self._unwritten.add(
            AdoptedStep(self.reuse.parent_id, step.scope, step.seq, step.inputs, edited)
        )
        return known if edited is None else replace(known, result=edited)

    def parent_request(self, scope: str, seq: int) -> bytes | None:
        return None if self.reuse is None else self.reuse.request(scope, seq)

    async def messages(self, after: int) -> Sequence[InboxMessage]:
        inbox = self.journal.inbox(self.lease.attempt_id)
        return await asyncio.to_thread(inbox.read, after)

    async def begin_wait(self, wanted: Wanted, about: str, after: int) -> None:
        await self.flush()  # a person may decide by what those steps did
        inbox = self.journal.inbox(self.lease.attempt_id)
        await asyncio.to_thread(inbox.begin_wait, self.lease, wanted, about, after)
