"""The log in which a session records its steps.

A model call costs money, so it is written before and after the call. Any other step is written
once, after it ran: if it is cut off, it leaves no bill, and its workspace is restored to the state
after the last recorded step.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent.errors import BudgetReserved, InvalidSpec
from agent.journal import (
    UNKNOWN_INPUTS,
    Inputs,
    Journal,
    Lease,
    Limit,
    RecordedStep,
    Reservation,
    TreeRef,
)
from agent.journal.blobs import Blobs
from agent.session.reuse import Reuse
from agent.session.steps import StepKind
from agent.timings import timings
from agent.workspaces.protocol import Checkpoint


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

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        """Record the result of an intended call."""
        ...

    async def cancel(self, call: Entry) -> None:
        """Cancel an intent whose call did not reach a provider."""
        ...

    async def append(
        self, step: Entry, result: bytes, *, duration_s: float, tree: TreeRef | None
    ) -> None:
        """Record a step that costs nothing, with its work tree if that changed."""
        ...

    async def reused(self, step: Entry) -> RecordedStep | None:
        """Record the result of the same step of another attempt. Return it, or None."""
        ...


class NoLog:
    """A log in memory for attempts not worth resuming. It only remembers work trees."""

    recorded: Sequence[RecordedStep] = ()

    def __init__(self) -> None:
        self._trees: dict[str, Checkpoint] = {}

    async def save_tree(self, checkpoint: Checkpoint) -> TreeRef:
        self._trees[checkpoint.tree] = checkpoint
        return TreeRef(checkpoint.tree, "in-memory")

    async def load_tree(self, tree: TreeRef) -> Checkpoint:
        return self._trees[tree.tree]

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
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

    async def reused(self, step: Entry) -> RecordedStep | None:
        return None


@dataclass(frozen=True)
class JournalLog:
    """A log in the journal, for the holder of an attempt's lease.

    The journal blocks, so each call runs in a thread.
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
        reservation = Reservation(ceiling_usd or 0.0, self.limits)
        until = time.monotonic() + timings().budget_patience_s
        while True:
            try:
                await asyncio.to_thread(self._intend, call, reservation)
            except BudgetReserved:
                if time.monotonic() >= until:
                    raise
            else:
                return
            await self.sleep(timings().budget_poll_s)

    def _intend(self, call: Entry, reservation: Reservation) -> None:
        self.journal.intend(
            self.lease,
            call.scope,
            call.seq,
            call.kind,
            call.digest,
            call.request,
            reservation,
            call.inputs,
        )

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
        await asyncio.to_thread(
            self.journal.append,
            self.lease,
            step.scope,
            step.seq,
            step.kind,
            step.digest,
            step.request,
            result,
            duration_s=duration_s,
            tree=tree,
            bench=step.bench,
            inputs=step.inputs,
        )

    async def reused(self, step: Entry) -> RecordedStep | None:
        if self.reuse is None:
            return None
        known = self.reuse.answer(step.scope, step.seq, step.kind, step.digest, step.inputs)
        if known is None:
            return None
        edited = self.reuse.edited(step.scope, step.seq)
        await asyncio.to_thread(
            self.journal.adopt,
            self.lease,
            self.reuse.parent_id,
            step.scope,
            step.seq,
            inputs=step.inputs,
            result=edited,
        )
        return known if edited is None else replace(known, result=edited)
