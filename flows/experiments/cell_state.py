"""The state of a cell according to the lake: finished work, and the reason for unfinished work."""

from collections import defaultdict
from dataclasses import replace
from typing import Literal

from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.keys import attempt_key, audit_key, is_cached, verdict_key
from flows.storage.attempts import is_refused
from flows.storage.lake import Lake, Row

End = Literal["done", "interrupted", "infrastructure", "misplaced", "budget", "refused"]
"""`done` is final. In every other case a later run resumes the cell."""

REFUSED = "Refused"
"""State name of a shard that was refused by a worker with another lake or journal."""


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


class CellStates:
    """The states of cells according to a lake.

    The evaluations of an arm are listed once. They are listed again if they contain no valid
    verdict on a patch, because another run may have given one since.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._units: dict[tuple[str, str], dict[str, list[str]]] = {}
        """Names of the evaluations by experiment and arm, and by attempt."""

    def cell_at(self, cell: Cell, here: str | None, *, grade: bool) -> Place | None:
        """Return the place where all work of a cell was done; None if some work is missing.

        An attempt is valid for any image. See `verdict_at` for verdicts and for `here`.
        """
        key = attempt_key(cell)
        attempt_id = key[:32]
        tables = ("attempts", "predictions")
        is_written = all(self.lake.has(table, *cell.partition, attempt_id) for table in tables)
        if not (is_written and is_cached("attempt", key, self.lake)):
            return None
        if not grade:
            return replace(cell.place, image_digest=here)
        patch = submission(cell, attempt_id, self.lake)
        return self.verdict_at(patch, here, twice=cell.experiment.audit)

    def verdict_at(self, patch: Submission, here: str | None, *, twice: bool) -> Place | None:
        """Return the place where the recorded verdict was given; None if there is no valid verdict.

        A verdict is valid for one image. `here` is the id of the local image. If it differs, the
        patch is regraded. Without a local image, the verdict is valid for its own image and nothing
        is pulled. The image is only pulled if other work on the instance needs it. If its digest
        has changed since, for example after a rebuild, the patch is regraded.
        """
        where = (patch.experiment, patch.arm)
        may_be_outdated = where in self._units
        place = self._valid(patch, here, twice=twice)
        if place is None and may_be_outdated:
            self._units.pop(where, None)
            place = self._valid(patch, here, twice=twice)
        return place

    def ended(self, cell: Cell, *, grade: bool) -> tuple[End, str]:
        """Return the recorded end state of a cell and its description."""
        attempt_id = attempt_key(cell)[:32]
        attempts = self.lake.read("attempts", *cell.partition, attempt_id)
        if self.cell_at(cell, None, grade=grade) is not None:
            return "done", self._verdict(cell, attempt_id) if grade else attempts[0]["outcome"]
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

    def _valid(self, patch: Submission, here: str | None, *, twice: bool) -> Place | None:
        rows = self._evaluations((patch.experiment, patch.arm), patch.attempt_id)
        graded_on = {row["image_digest"] for row in rows}
        for digest in graded_on if here is None else graded_on & {here}:
            at = patch.at(replace(patch.place, image_digest=digest))
            is_graded = is_cached("evaluation", verdict_key(at), self.lake)
            if is_graded and (not twice or is_cached("audit", audit_key(at), self.lake)):
                return at.place
        return None

    def _verdict(self, cell: Cell, attempt_id: str) -> str:
        """Return the outcome of the latest grading that was not an infrastructure failure."""
        rows = self._evaluations(cell.partition, attempt_id)
        gradings = [row for row in rows if row["outcome"] != "infrastructure"]
        return str(max(gradings, key=lambda row: row["started_at"])["outcome"])

    def _evaluations(self, where: tuple[str, str], attempt_id: str) -> list[Row]:
        units = self._units.get(where)
        if units is None:
            units = self._units[where] = self._listed(where)
        found = units.get(attempt_id, ())
        return [row for unit in found for row in self.lake.read("evaluations", *where, unit)]

    def _listed(self, where: tuple[str, str]) -> dict[str, list[str]]:
        """Return the names of an arm's evaluations by attempt: its id, a dash and a key."""
        units = defaultdict[str, list[str]](list)
        for unit in self.lake.units("evaluations", "*", *where):
            units[unit.rpartition("-")[0]].append(unit)
        return dict(units)
