"""Where the arms of the leading pair differ."""

from dataclasses import dataclass

from reports.types import Cell, Report

SHOWN = 150
"""Cells a direction that are listed with their trajectories; more are only counted."""


@dataclass(frozen=True)
class Difference:
    """One cell that only one of the two arms resolved."""

    instance_id: str
    repeat: int
    winner: Cell
    loser: Cell


@dataclass(frozen=True)
class Side:
    """The cells that one of the two arms alone resolved."""

    winner: str
    loser: str
    cells: int
    """All of them."""
    shown: tuple[Difference, ...]
    """In declared order of the instances, at most `SHOWN`."""


def read_sides(report: Report) -> tuple[Side, ...]:
    """What the candidate alone resolved, then what the baseline alone did; none without a pair."""
    if not report.comparisons:
        return ()
    pair = report.comparisons[0]
    by_cell: dict[str, dict[tuple[str, int], Cell]] = {pair.baseline: {}, pair.candidate: {}}
    for cell in report.cells:
        if cell.arm in by_cell:
            by_cell[cell.arm][cell.instance_id, cell.repeat] = cell
    return tuple(
        _side(by_cell, winner, loser)
        for winner, loser in ((pair.candidate, pair.baseline), (pair.baseline, pair.candidate))
    )


def _side(by_cell: dict[str, dict[tuple[str, int], Cell]], winner: str, loser: str) -> Side:
    won = [
        Difference(*key, cell, by_cell[loser][key])
        for key, cell in by_cell[winner].items()
        if cell.failure is None and key in by_cell[loser] and by_cell[loser][key].failure
    ]
    return Side(winner, loser, len(won), tuple(won[:SHOWN]))
