"""The state of a cell according to the lake: finished work, and the reason for unfinished work."""

from dataclasses import replace
from typing import Literal

from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.keys import attempt_key, audit_key, is_cached, verdict_key
from flows.storage.attempts import is_refused
from flows.storage.lake import Lake

End = Literal["done", "interrupted", "infrastructure", "misplaced", "budget", "refused"]
"""`done` is final. In every other case a later run resumes the cell."""

REFUSED = "Refused"
"""State name of a cell's flow run that was refused by a worker with another lake or journal."""


def submission(cell: Cell, attempt_id: str, lake: Lake) -> Submission:
    """Return the patch of an ended attempt as a submission for grading."""
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
    """Return the place where all work of a cell was done; None if some work is missing.

    An attempt is valid for any image. See `verdict_at` for verdicts and for `here`.
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
    """Return the place where the recorded verdict was given; None if there is no valid verdict.

    A verdict is valid for one image. `here` is the id of the local image. If it differs, the patch
    is regraded. Without a local image, the verdict is valid for its own image and nothing is
    pulled. The image is only pulled if other work on the instance needs it. If its digest has
    changed since, for example after a rebuild, the patch is regraded.
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
    """Return the recorded end state of a cell and its description."""
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
        case _ if is_refused(attempts[0]):
            return "refused", f"not run: {detail}"
        case "infrastructure":
            return "infrastructure", f"infrastructure: {detail}"
        case _:
            return "infrastructure", "infrastructure: the patch was not graded"


def _verdict(cell: Cell, attempt_id: str, lake: Lake) -> str:
    """Return the outcome of the latest grading that was not an infrastructure failure."""
    gradings = [
        row
        for unit in lake.units("evaluations", f"{attempt_id}-*", *cell.partition)
        for row in lake.read("evaluations", *cell.partition, unit)
        if row["outcome"] != "infrastructure"
    ]
    return str(max(gradings, key=lambda row: row["started_at"])["outcome"])
