"""How a cell stands by what the lake records of it: what is done, and how the rest ended."""

from dataclasses import replace
from typing import Literal

from flows.errors import REFUSAL
from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.keys import attempt_key, audit_key, is_cached, verdict_key
from flows.storage.lake import Lake

End = Literal["done", "interrupted", "infrastructure", "misplaced", "budget", "refused"]
"""`done` is recorded for good; every other one is carried on by a later run."""

REFUSED = "Refused"
"""Name of the state of a cell's flow run whose worker has another lake or journal."""


def submission(cell: Cell, attempt_id: str, lake: Lake) -> Submission:
    """The patch of an attempt that has ended, as it is graded."""
    [prediction] = lake.read("predictions", *cell.partition, attempt_id)
    return Submission(
        *cell.partition,
        cell.instance,
        cell.repeat,
        attempt_id,
        prediction["model_patch"],
        cell.place,
        cell.experiment.evaluation_timeout_s,
    )


def cell_at(cell: Cell, here: str | None, lake: Lake, *, grade: bool) -> Place | None:
    """Where everything of a cell was done; None if something is still to do.

    An attempt holds whatever its image was; for its verdict, and `here`, see `verdict_at`.
    """
    key = attempt_key(cell)
    attempt_id = key[:32]
    tables = ("attempts", "predictions")
    is_written = all(lake.has(table, *cell.partition, attempt_id) for table in tables)
    if not (is_written and is_cached("attempt", key, lake)):
        return None
    if not grade:
        return replace(cell.place, image_digest=here)
    patch = submission(cell, attempt_id, lake)
    return verdict_at(patch, here, lake, twice=cell.experiment.audit)


def verdict_at(patch: Submission, here: str | None, lake: Lake, *, twice: bool) -> Place | None:
    """Where the recorded verdict on a patch was given; None if there is none.

    A verdict holds for one image. `here` is the id of the one that is on this machine: if it
    is another, the patch is graded again. Where no image is here, the verdict stands with the
    image that it was given on, and nothing is brought. Only when something else of the
    instance has to be done, the image comes; if what comes is another then, as after a new
    build, the patch is graded again on it.
    """
    where = (patch.experiment, patch.arm)
    graded_on = {
        row["image_digest"]
        for unit in lake.units("evaluations", f"{patch.attempt_id}-*", *where)
        for row in lake.read("evaluations", *where, unit)
    }
    for digest in graded_on if here is None else graded_on & {here}:
        at = patch.at(replace(patch.place, image_digest=digest))
        is_graded = is_cached("evaluation", verdict_key(at), lake)
        if is_graded and (not twice or is_cached("audit", audit_key(at), lake)):
            return at.place
    return None


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
