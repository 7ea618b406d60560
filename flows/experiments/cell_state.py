"""The finished work of cells according to the lake."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from agent.errors import BudgetExhausted, Interrupted, Waiting
from agent.types import Outcome
from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.keys import attempt_id_of, attempt_key, is_cached
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Interruption:
    """Reason why an attempt did not end. A later run resumes it."""

    status: Literal["infrastructure", "budget_stop", "interrupted", "refused", "waiting"]
    detail: str

    @classmethod
    def of(cls, error: Exception) -> "Interruption":
        """Return the interruption that an error means."""
        match error:
            case BudgetExhausted():
                return cls("budget_stop", str(error))
            case Interrupted():
                return cls("interrupted", str(error))
            case Waiting():
                return cls("waiting", str(error))
            case _:
                return cls("infrastructure", f"{type(error).__name__}: {error}")


def to_text(outcome: Outcome) -> str:
    """Serialize an outcome for the journal."""
    return json.dumps(asdict(outcome))


def from_text(text: str) -> Outcome:
    """Parse the result of `to_text`."""
    content = json.loads(text)
    content.pop("run", None)  # earlier releases recorded the time of the last run
    return Outcome(**content)


End = Literal[
    "done",
    "interrupted",
    "infrastructure",
    "misplaced",
    "budget",
    "refused",
    "waiting",
    "not_needed",
]
"""`done` is final. `not_needed` is a cell that an early decision spares (`stop_when`). In every
other case a later run resumes the cell."""

REFUSED = "Refused"
"""State name of a shard that was refused by a worker with another lake or journal."""


@dataclass(frozen=True)
class Finished:
    """All work of a cell, or the verdict on a patch."""

    place: Place
    """The place where it was done."""
    result: str
    """The outcome of the verdict, or of the attempt if no verdict is wanted."""


def submission(cell: Cell, attempt_id: str, lake: Lake) -> Submission:
    """Return the patch of an ended attempt as a submission for grading."""
    [prediction] = lake.read("predictions", *cell.partition, attempt_id, columns=("model_patch",))
    return Submission(
        *cell.partition,
        cell.instance,
        cell.repeat,
        attempt_id,
        prediction["model_patch"],
        cell.place,
        cell.instance.timeout_s or cell.experiment.evaluation_timeout_s,
        cell.repeat if cell.arm.agent == "gold" else 0,
    )


def is_solved(cell: Cell, lake: Lake) -> bool:
    """Return True if the attempt at a cell has ended and all of it is in the lake."""
    if list_missing_tables(cell, attempt_id_of(cell), lake):
        return False
    return is_cached("attempt", attempt_key(cell), lake, *cell.partition)


def list_missing_tables(cell: Cell, attempt_id: str, lake: Lake) -> list[str]:
    """Return the tables without the row that every ended attempt has."""
    where = (*cell.partition, attempt_id)
    return [table for table in ("attempts", "predictions") if not lake.has(table, *where)]


def find_unsolved(cells: Sequence[Cell], lake: Lake) -> list[Cell]:
    """Return the cells whose attempts have not ended."""
    return [cell for cell in cells if not is_solved(cell, lake)]


class CellStates:
    """The states of cells according to a lake.

    The evaluations of an arm are listed once. They are listed again if they contain no valid
    verdict on a patch, because another run can have written one since.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._units: dict[tuple[str, str], Mapping[str, list[str]]] = {}
        """Names of the evaluations by experiment and arm, and by attempt."""

    def results(
        self, cells: Sequence[Cell], images: Mapping[str, str] | None = None, *, grade: bool
    ) -> list[str | None]:
        """Return the result of each cell, or None if some work on it is missing.

        `images` are the ids of local images by name; None if this machine pulls no images.
        Otherwise, an instance without a local image is finished as a whole or not at all: if work
        on one of its cells is missing, its image will be pulled, and the other verdicts have to be
        valid for that image as well.
        """
        local = images or {}
        states = [self._cell(cell, local.get(cell.instance.image), grade=grade) for cell in cells]
        pulled: set[str] = set()
        if images is not None:
            paired = zip(cells, states, strict=True)
            pulled = {cell.instance.image for cell, state in paired if state is None}
            pulled -= images.keys()
        return [
            state.result if state and cell.instance.image not in pulled else None
            for cell, state in zip(cells, states, strict=True)
        ]

    def cell_at(self, cell: Cell, image_id: str | None, *, grade: bool) -> Place | None:
        """Return the place where all work of a cell was done; None if some work is missing.

        An attempt is valid for any image. See `verdict_at` for verdicts and for `image_id`.
        """
        state = self._cell(cell, image_id, grade=grade)
        return state.place if state is not None else None

    def verdict_at(self, patch: Submission, image_id: str | None, *, twice: bool) -> Place | None:
        """Return the place where the recorded verdict was given; None if there is no valid verdict.

        A verdict is valid for one image. `image_id` is the id of the local image. If it differs,
        the patch is regraded. Without a local image, the verdict is valid for its own image and
        nothing is pulled. The image is only pulled if other work on the instance needs it. If its
        digest has changed since, for example after a rebuild, the patch is regraded.
        """
        state = self._verdict(patch, image_id, twice=twice)
        return state.place if state is not None else None

    def _cell(self, cell: Cell, image_id: str | None, *, grade: bool) -> Finished | None:
        if not is_solved(cell, self.lake):
            return None
        attempt_id = attempt_id_of(cell)
        if grade:
            patch = submission(cell, attempt_id, self.lake)
            return self._verdict(patch, image_id, twice=cell.experiment.audit)
        [row] = self.lake.read("attempts", *cell.partition, attempt_id, columns=("outcome",))
        return Finished(replace(cell.place, image_digest=image_id), row["outcome"])

    def _verdict(self, patch: Submission, image_id: str | None, *, twice: bool) -> Finished | None:
        where = (patch.experiment, patch.arm)
        is_outdated = where in self._units
        verdict = self._read_verdict(patch, image_id, twice=twice)
        if verdict is None and is_outdated:
            del self._units[where]
            verdict = self._read_verdict(patch, image_id, twice=twice)
        return verdict

    def _read_verdict(
        self, patch: Submission, image_id: str | None, *, twice: bool
    ) -> Finished | None:
        where = (patch.experiment, patch.arm)
        if where not in self._units:
            units = defaultdict[str, list[str]](list)
            for unit in self.lake.units("evaluations", "*", *where):
                units[unit.rpartition("-")[0]].append(unit)  # the attempt, a dash and a key
            self._units[where] = units
        columns = ("image_digest", "outcome", "started_at")  # reading all takes much longer
        rows = [
            row
            for unit in self._units[where].get(patch.attempt_id, ())
            for row in self.lake.read("evaluations", *where, unit, columns=columns)
        ]
        digests = {row["image_digest"] for row in rows}
        for digest in digests if image_id is None else digests & {image_id}:
            at = patch.at(replace(patch.place, image_digest=digest))
            is_graded = is_cached("evaluation", at.verdict_key, self.lake, *where)
            if is_graded and (not twice or is_cached("audit", at.audit_key, self.lake, *where)):
                gradings = [row for row in rows if row["outcome"] != "infrastructure"]
                latest = max(gradings, key=lambda row: row["started_at"])
                return Finished(at.place, str(latest["outcome"]))
        return None
