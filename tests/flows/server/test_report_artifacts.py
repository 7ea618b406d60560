"""The order in which cells are shown to an operator."""

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
    return CELL._replace(state=state, cost_usd=cost_usd, is_suspect=is_suspect)


def test_broken_cells_come_first_and_missing_ones_last() -> None:
    """Broken cells come first, then stopped and suspect ones, then the rest by cost. Cells that
    were not begun come last."""
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
    """Of ten thousand cells only the first ones are shown, and the broken one is among them."""
    cells = [*[CELL] * 10_000, cell("infrastructure")]
    shown = most_telling(cells)
    assert len(shown) == SHOWN_CELLS
    assert shown[0].state == "infrastructure"
