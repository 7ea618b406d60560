"""Reasons for planned cells not to be resolved, counted by arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.losses import (
    ENDINGS,
    FAILURES,
    PHASES,
    Example,
    FailureClass,
    FailureCount,
    Failures,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from reports.types import Report


_UNTOLD = ({FAILURES["untold"]}, {ENDINGS["unknown"], ENDINGS[None]}, set[str]())
"""Names of the rows, by group, that say no more than the states of the cells. A group of these
alone is left out."""


@dataclass(frozen=True)
class FailureRow:
    """One way to fail."""

    name: str
    cells: tuple[int, ...]
    """Number of cells by arm, in the order of the arms that were asked for."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class FailureGroup:
    """The failures of all arms, classified in one way. Each cell is in one row.

    The classification by phase has only the cells of arms with phases.
    """

    title: str
    rows: tuple[FailureRow, ...]
    """Rows of the kinds that occur."""


def read_failures(connection: DuckDBPyConnection) -> Failures:
    """Read counts and examples. `connection` has the marts."""
    counts = connection.execute(
        "select arm, class, ended, phase, cells from marts.failure_counts"
    ).fetchall()
    examples = connection.execute(
        "select class, arm, instance_id, repeat, attempt_id from marts.failure_examples"
    ).fetchall()
    return Failures(
        tuple(FailureCount(*row) for row in counts), tuple(Example(*row) for row in examples)
    )


def failures_of(report: Report, arm: str) -> Mapping[FailureClass, int]:
    """Return the number of failed cells of one arm by class, most frequent first."""
    cells: Counter[FailureClass] = Counter()
    for count in report.failures.counts:
        if count.arm == arm:
            cells[count.kind] += count.cells
    return dict(cells.most_common())


def group_failures(report: Report, arms: Sequence[str]) -> tuple[FailureGroup, ...]:
    """Group the failures of these arms: by the grading's finding, by the attempt's ending, and by
    phase if any."""
    examples = {
        FAILURES[kind]: tuple(e for e in report.failures.examples if e.kind == kind)
        for kind in FAILURES
    }
    groups = (
        FailureGroup("Result of grading", _rows(report, arms, FAILURES, _kind, examples)),
        FailureGroup("Ending reported by the attempt", _rows(report, arms, ENDINGS, _ended)),
        FailureGroup("Progress of the agent", _rows(report, arms, PHASES, _phase)),
    )
    return tuple(
        group
        for group, untold in zip(groups, _UNTOLD, strict=True)
        if not {row.name for row in group.rows} <= untold
    )


def _rows(
    report: Report,
    arms: Sequence[str],
    names: Mapping[Any, str],
    key: Callable[[FailureCount], str | None],
    examples: Mapping[str, tuple[Example, ...]] | None = None,
) -> tuple[FailureRow, ...]:
    """Return one row for each name that occurs. A key without a display name names itself."""
    cells: Counter[tuple[str, str]] = Counter()
    for count in report.failures.counts:
        name = names.get(key(count), key(count))
        if name is not None:
            cells[name, count.arm] += count.cells
    occurring = {name for name, _ in cells}
    order = [name for name in names.values() if name in occurring]
    order += sorted(occurring.difference(order))
    return tuple(
        FailureRow(
            name,
            tuple(cells[name, arm] for arm in arms),
            (examples or {}).get(name, ()),
        )
        for name in order
    )


def _kind(count: FailureCount) -> str:
    return count.kind


def _ended(count: FailureCount) -> str | None:
    return count.ended


def _phase(count: FailureCount) -> str | None:
    return count.phase
