"""How a cell ended, as the run that began it sees it and as the lake tells it later."""

from typing import Literal

from flows.cells import Cell
from flows.keys import attempt_key
from flows.lake import Lake
from flows.recorded import cell_at

End = Literal["done", "interrupted", "infrastructure", "misplaced", "budget", "refused"]
"""`done` is recorded for good; every other one is carried on by a later run."""

REFUSED = "Refused"
"""Name of the state of a cell's flow run whose worker has another lake or journal."""

REFUSAL = "preflight failed"
"""How the detail of an attempt begins whose image was not fit."""


def ended(cell: Cell, lake: Lake, *, grade: bool) -> tuple[End, str]:
    """How a cell stands by what is recorded of it, and the same in words."""
    attempt_id = attempt_key(cell)[:32]
    attempts = lake.read("attempts", *cell.partition, attempt_id)
    if cell_at(cell, None, lake, grade=grade) is not None:
        return "done", _verdict(cell, attempt_id, lake) if grade else attempts[0]["outcome"]
    if not attempts:
        return "infrastructure", "infrastructure: nothing was recorded"
    outcome, detail = attempts[0]["outcome"], attempts[0]["detail"]
    match outcome:
        case "budget_stop":
            return "budget", f"stopped: {detail}"
        case "interrupted":
            return "interrupted", f"interrupted: {detail}"
        case "infrastructure":
            end: End = "refused" if detail.startswith(REFUSAL) else "infrastructure"
            return end, f"infrastructure: {detail}"
        case _:
            return "infrastructure", "infrastructure: the patch was not graded"


def _verdict(cell: Cell, attempt_id: str, lake: Lake) -> str:
    """The outcome of the latest grading that came to one."""
    gradings = [
        row
        for unit in lake.units("evaluations", f"{attempt_id}-*", *cell.partition)
        for row in lake.read("evaluations", *cell.partition, unit)
        if row["outcome"] != "infrastructure"
    ]
    return str(max(gradings, key=lambda row: row["started_at"])["outcome"])
