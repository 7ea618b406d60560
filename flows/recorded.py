"""What is recorded already, so that no image has to be here for it."""

from dataclasses import replace

from flows.cells import Cell, Place, Submission
from flows.keys import attempt_key, audit_key, verdict_key
from flows.lake import Lake
from flows.tasks import is_kept


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
    if not (is_written and is_kept("attempt", key, lake)):
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
        is_graded = is_kept("evaluation", verdict_key(at), lake)
        if is_graded and (not twice or is_kept("audit", audit_key(at), lake)):
            return at.place
    return None
