"""Where a session writes its steps down, before and after they happen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.blobs import Blobs
from agent.errors import InvalidSpec
from agent.journal import Journal, Lease, Limit, RecordedStep, Reservation
from agent.workspaces.protocol import Checkpoint


class StepLog(Protocol):
    """What a session needs of a log. Every method may raise what its journal raises."""

    @property
    def recorded(self) -> Sequence[RecordedStep]:
        """The steps of earlier runs of the attempt."""
        ...

    @property
    def keeps_trees(self) -> bool:
        """Whether work trees are to be written down."""
        ...

    @property
    def tree(self) -> str | None:
        """The git tree that the recorded steps left; None at the base commit."""
        ...

    async def intend(
        self,
        scope: str,
        seq: int,
        kind: str,
        digest: str,
        request: bytes,
        ceiling_usd: float | None,
    ) -> None:
        """Write down that a step is about to happen, and set aside what it can cost.

        Raises:
            BudgetExhausted: it could cost more than is left; nothing is written.
            InvalidSpec: nobody knows what it can cost, and a budget in USD is to be kept.
        """
        ...

    async def record(
        self,
        scope: str,
        seq: int,
        result: bytes,
        *,
        cost_usd: float | None,
        duration_s: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        """Write down what came of it, and the work tree where it changed."""
        ...

    async def refuse(self, scope: str, seq: int) -> None:
        """Take an intent back: the call reached nobody who could charge for it."""
        ...


class NoLog:
    """Remembers nothing: for attempts that are not worth resuming."""

    recorded: Sequence[RecordedStep] = ()
    keeps_trees = False
    tree: str | None = None

    async def intend(
        self,
        scope: str,
        seq: int,
        kind: str,
        digest: str,
        request: bytes,
        ceiling_usd: float | None,
    ) -> None:
        return

    async def record(
        self,
        scope: str,
        seq: int,
        result: bytes,
        *,
        cost_usd: float | None,
        duration_s: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        return

    async def refuse(self, scope: str, seq: int) -> None:
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

    async def intend(
        self,
        scope: str,
        seq: int,
        kind: str,
        digest: str,
        request: bytes,
        ceiling_usd: float | None,
    ) -> None:
        if ceiling_usd is None and any(limit.usd is not None for limit in self.limits):
            raise InvalidSpec(
                "a budget in USD cannot be kept for a model of unknown price: declare its "
                "input_cost_per_token and output_cost_per_token, or limit calls instead"
            )
        reservation = Reservation(ceiling_usd or 0.0, self.limits) if kind == "model" else None
        await asyncio.to_thread(
            self.journal.intend, self.lease, scope, seq, kind, digest, request, reservation
        )

    async def record(
        self,
        scope: str,
        seq: int,
        result: bytes,
        *,
        cost_usd: float | None,
        duration_s: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        def write() -> None:
            # The tree is safe before the step that names it.
            tree = None
            if checkpoint is not None:
                tree = f"{checkpoint.tree} {self.blobs.put(checkpoint.delta)}"
            self.journal.record(
                self.lease, scope, seq, result, cost_usd=cost_usd, duration_s=duration_s, tree=tree
            )

        await asyncio.to_thread(write)

    async def refuse(self, scope: str, seq: int) -> None:
        await asyncio.to_thread(self.journal.refuse, self.lease, scope, seq)

    @property
    def keeps_trees(self) -> bool:
        """Always: a resumed attempt goes on from the tree of its last step."""
        return True

    @property
    def tree(self) -> str | None:
        """The git tree that the recorded steps left; None at the base commit."""
        last = self._last_with_tree()
        return last.split()[0] if last else None

    def checkpoint(self) -> Checkpoint | None:
        """The work tree that the recorded steps left; None at the base commit."""
        last = self._last_with_tree()
        if last is None:
            return None
        tree, delta = last.split()
        return Checkpoint(tree, self.blobs.get(delta))

    def _last_with_tree(self) -> str | None:
        """`<tree> <digest of its delta>` of the last step that changed the work tree."""
        changed = [step for step in self.recorded if step.tree is not None]
        return max(changed, key=lambda step: step.ordinal).tree if changed else None
