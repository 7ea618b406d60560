"""The order in which cells are shown to an operator."""

from dataclasses import replace

from flows.report import SHOWN_CELLS, most_telling
from reports.types import Cell, State

CELL = Cell(
    arm="able",
    instance_id="i",
    repeat=0,
    state="resolved",
    attempt_id="a",
    cost_usd=1.0,
    is_cost_complete=True,
    model_calls=1,
    outcome="submitted",
    detail=None,
    reason=None,
    is_suspect=False,
    audit_reasons=(),
    failure=None,
)


def cell(state: State, cost_usd: float | None = 1.0, *, is_suspect: bool = False) -> Cell:
    return replace(CELL, state=state, cost_usd=cost_usd, is_suspect=is_suspect)


def test_what_broke_comes_first_and_what_was_not_begun_last() -> None:
    """Then what is stopped, what is in doubt, and the rest by its cost."""
    wanted = [
        cell("infrastructure"),
        cell("stopped"),
        cell("resolved", 0.1, is_suspect=True),
        cell("unresolved", 3.0),
        cell("resolved", 2.0),
        cell("no_patch", None),
        cell("missing", None),
    ]
    assert most_telling(reversed(wanted)) == wanted


def test_a_table_of_cells_is_bounded() -> None:
    """Ten thousand cells are no table; the one that broke is in it."""
    cells = [*[CELL] * 10_000, cell("infrastructure")]
    shown = most_telling(cells)
    assert len(shown) == SHOWN_CELLS
    assert shown[0].state == "infrastructure"
