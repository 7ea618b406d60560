"""Cells in which the arms of the leading pair differ."""

from dataclasses import dataclass

from reports.types import Report, ReportCell

SHOWN = 150
"""Maximum number of cells per direction to list with trajectories. Others are only counted."""


@dataclass(frozen=True)
class Difference:
    """One cell that only one of the two arms resolved."""

    instance_id: str
    repeat: int
    winner: ReportCell
    loser: ReportCell


@dataclass(frozen=True)
class Side:
    """The cells that only one of the two arms resolved."""

    winner: str
    loser: str
    cells: int
    """Number of all such cells."""
    shown: tuple[Difference, ...]
    """At most `SHOWN` cells, in declared order of the instances."""


def read_sides(report: Report) -> tuple[Side, ...]:
    """Return the cells that only the candidate resolved, then the cells of the baseline.

    Without a pair of arms the result is empty.
    """
    if not report.comparisons:
        return ()
    pair = report.comparisons[0]
    by_cell: dict[str, dict[tuple[str, int], ReportCell]] = {pair.baseline: {}, pair.candidate: {}}
    for cell in report.cells:
        if cell.arm in by_cell:
            by_cell[cell.arm][cell.instance_id, cell.repeat] = cell
    return (
        _side(by_cell, pair.candidate, pair.baseline, pair.table.only_candidate),
        _side(by_cell, pair.baseline, pair.candidate, pair.table.only_baseline),
    )


def _side(
    by_cell: dict[str, dict[tuple[str, int], ReportCell]], winner: str, loser: str, cells: int
) -> Side:
    won = [
        Difference(*key, cell, by_cell[loser][key])
        for key, cell in by_cell[winner].items()
        if cell.failure is None and key in by_cell[loser] and by_cell[loser][key].failure
    ]
    return Side(winner, loser, cells, tuple(won[:SHOWN]))
