"""Decide the primary comparison of a run early (`stop_when`).

A cell is not needed if the comparison is decided before any cell of its instance has started. A
started instance is finished in every arm and repeat, so that every comparison keeps its pairs.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.plan import Plan
from flows.storage.lake import Row
from reports.format import plural

_DIGITS = 16
"""Length of the prefix of a declaration's digest that names the file of a decision."""


@dataclass(frozen=True)
class StopDecision:
    """The evidence that ended an experiment."""

    arm: str
    """The arm that resolves more."""
    other: str
    complete: int
    """Number of complete instances."""
    e_value: float

    def __str__(self) -> str:
        return (
            f"decided: {self.arm} resolves more than {self.other} (e-value {self.e_value:.1f} "
            f"after {plural(self.complete, 'complete instance')})"
        )


class Monitor:
    """Looks at the primary comparison after every cell."""

    def __init__(self, plan: Plan, digest: str = "") -> None:
        """Use `of`. `digest` is the digest of the declaration."""
        self.decision: StopDecision | None = None
        self._plan, self._unit, self._digest = plan, digest[:_DIGITS], digest
        self._rule, self._primary = plan.experiment.stop_when, plan.experiment.primary
        self._open, self._lead = Counter[str](), Counter[str]()
        self._differences = Counter[float]()
        self._compared = self._primary.arms if self._primary else frozenset()
        for cell in plan.cells:
            self._open[cell.instance.instance_id] += cell.arm.name in self._compared

    @classmethod
    def of(cls, plan: Plan, results: Sequence[str | None]) -> "Monitor":
        """Return a monitor of a run that starts with these results of its cells.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        if plan.experiment.stop_when is None:
            return cls(plan)
        name = plan.experiment.name
        latest = plan.lake.latest_unit("experiments", name)
        [declared, *_] = plan.lake.find("experiments", latest, name)
        monitor = cls(plan, declared["declaration_digest"])
        if earlier := plan.lake.find("decisions", monitor._unit, name):
            monitor.decision = monitor._read(earlier[0])
            return monitor
        for cell, result in zip(plan.cells, results, strict=True):
            if result is not None:
                monitor._count(cell, result)
        if row := monitor._decide():
            monitor._record(row)
        return monitor

    async def look(self, cell: Cell, end: End, result: str) -> None:
        """Count the end of a cell, which may decide the comparison.

        The decision is recorded in the lake, and holds for later runs.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        if end == "done" and self._count(cell, result) and (row := self._decide()):
            await asyncio.to_thread(self._record, row)

    def not_needed(self) -> list[list[Cell]]:
        """Return the cells at instances without any attempt in the lake, by instance.

        Empty if nothing is decided. Cells that are at work have no attempt in the lake yet.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        if self.decision is None:
            return []
        rows = self._plan.lake.rows("attempts", self._plan.experiment.name)
        begun = {row["instance_id"] for row in rows}
        spared = defaultdict[str, list[Cell]](list)
        for cell in self._plan.cells:
            if cell.instance.instance_id not in begun:
                spared[cell.instance.instance_id].append(cell)
        return list(spared.values())

    def _count(self, cell: Cell, result: str) -> bool:
        """Count a verdict. Return True if it completes an instance."""
        if self._rule is None or self._primary is None or self.decision is not None:
            return False
        if cell.arm.name not in self._compared or result == "infrastructure":
            return False
        instance = cell.instance.instance_id
        sign = 1 if cell.arm.name == self._primary.candidate else -1
        self._lead[instance] += sign * (result == "resolved")
        self._open[instance] -= 1
        if self._open[instance]:
            return False
        self._differences[self._lead[instance] / self._plan.experiment.repeats] += 1
        return True

    def _decide(self) -> Row | None:
        """Return the row of the decision if the evidence is enough."""
        from reports.statistics.looks import PairedEvidence  # numpy is slow to import

        if self._rule is None or self._primary is None:
            return None
        evidence = PairedEvidence(self._differences)
        if evidence.e_value < 1 / self._rule.alpha:
            return None
        row = {
            "decided_at": datetime.now(UTC),
            "declaration_digest": self._digest,
            "baseline": self._primary.baseline,
            "alpha": self._rule.alpha,
            "complete": evidence.complete,
            "candidate_leads": evidence.candidate_leads,
            "baseline_leads": evidence.baseline_leads,
            "difference": evidence.difference,
            "e_value": evidence.e_value,
        }
        self.decision = self._read(row)
        return row

    def _record(self, row: Row) -> None:
        assert self._primary is not None, "the experiment was validated"
        where = (self._plan.experiment.name, self._primary.candidate, self._unit)
        self._plan.lake.write("decisions", *where, [row])

    def _read(self, row: Row) -> StopDecision:
        assert self._primary is not None, "the experiment was validated"
        arms = (self._primary.candidate, self._primary.baseline)
        better, other = arms if row["difference"] >= 0 else arms[::-1]
        return StopDecision(better, other, row["complete"], row["e_value"])
