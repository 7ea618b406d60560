"""Where a session writes its steps down.

A model call costs money, so it is written down before and after; anything else once, after it
happened: cut off, it leaves no bill, and a workspace that comes back as the last step left it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.errors import InvalidSpec
from agent.journal import Journal, Lease, Limit, RecordedStep, Reservation
from agent.journal.blobs import Blobs
from agent.session.steps import StepKind
from agent.workspaces.protocol import Checkpoint


@dataclass(frozen=True)
class Entry:
    """What a step is, apart from what came of it."""

    scope: str
    seq: int
    kind: StepKind
    digest: str
    request: bytes


class StepLog(Protocol):
    """What a session needs of a log. Every method may raise what its journal raises."""

    @property
    def recorded(self) -> Sequence[RecordedStep]:
        """The steps of earlier runs of the attempt."""
        ...

    async def keep(self, checkpoint: Checkpoint) -> str:
        """Put a work tree away; what `kept` and `enter` know it by: two words, of which the
        first is its id. A third may be added to them."""
        ...

    async def kept(self, tree: str) -> Checkpoint:
        """The work tree that `keep` called so."""
        ...

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        """Write down that a call is about to be made, and set aside what it can cost.

        Raises:
            BudgetExhausted: it could cost more than is left; nothing is written.
            InvalidSpec: nobody knows what it can cost, and a budget in USD is to be kept.
        """
        ...

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        """Write down what came of an intended call."""
        ...

    async def refuse(self, call: Entry) -> None:
        """Take an intent back: the call reached nobody who could charge for it."""
        ...

    async def enter(
        self, step: Entry, result: bytes, *, duration_s: float, tree: str | None
    ) -> None:
        """Write down a step that costs nothing, and the work tree where it changed."""
        ...


class NoLog:
    """Remembers work trees while the program runs: for attempts not worth resuming."""

    recorded: Sequence[RecordedStep] = ()

    def __init__(self) -> None:
        self._trees: dict[str, Checkpoint] = {}

    async def keep(self, checkpoint: Checkpoint) -> str:
        self._trees[checkpoint.tree] = checkpoint
        return f"{checkpoint.tree} kept"

    async def kept(self, tree: str) -> Checkpoint:
        return self._trees[tree.split()[0]]

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        return

    async def record(
        self, call: Entry, result: bytes, *, cost_usd: float | None, duration_s: float
    ) -> None:
        return

    async def refuse(self, call: Entry) -> None:
        return

    async def enter(
        self, step: Entry, result: bytes, *, duration_s: float, tree: str | None
    ) -> None:
        return


@dataclass(frozen=True)
class JournalLog:
    """The journal, for the holder of an attempt's lease.

    The journal blocks, so each call runs in a thread.
    """

    journal: Journal
    lease: Lease
    blobs: Blobs
    recorded: Sequence[RecordedStep]
    limits: tuple[Limit, ...] = ()

    async def keep(self, checkpoint: Checkpoint) -> str:
        """`<tree> <digest of its delta>`; safe before any step names it."""
        delta = await asyncio.to_thread(self.blobs.put, checkpoint.delta)
        return f"{checkpoint.tree} {delta}"

    async def kept(self, tree: str) -> Checkpoint:
        tree_id, delta = tree.split()[:2]
        return Checkpoint(tree_id, await asyncio.to_thread(self.blobs.get, delta))

    async def intend(self, call: Entry, ceiling_usd: float | None) -> None:
        if ceiling_usd is None and any(limit.usd is not None for limit in self.limits):
            raise InvalidSpec(
                "a budget in USD cannot be kept for a model of unknown price: declare its "
                "input_cost_per_token and output_cost_per_token, or limit calls instead"
            )
        reservation = Reservation(ceiling_usd or 0.0, self.limits)
        await asyncio.to_thread(
            self.journal.intend,
            self.lease,
            call.scope,
            call.seq,
            call.kind,
            call.digest,
            call.request,
            reservation,
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

    async def refuse(self, call: Entry) -> None:
        await asyncio.to_thread(self.journal.refuse, self.lease, call.scope, call.seq)

    async def enter(
        self, step: Entry, result: bytes, *, duration_s: float, tree: str | None
    ) -> None:
        await asyncio.to_thread(
            self.journal.enter,
            self.lease,
            step.scope,
            step.seq,
            step.kind,
            step.digest,
            step.request,
            result,
            duration_s=duration_s,
            tree=tree,
        )
