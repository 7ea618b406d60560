"""The binding of a lake to its journal, written into the lake by its first run.

Two journals for one lake would not share leases, budgets and steps, and work paid for in one would
be paid for again through the other.
"""

import uuid
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import InfrastructureError
from flows.display.errors import Mismatch
from flows.storage.lake import Lake, create_whole, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

ADOPT = "`durabench doctor --adopt-journal`"


class Binding(BaseModel):
    """A lake and its journal by id, and the location of the journal at that time."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    lake_id: str
    journal_id: str
    journal: str
    """Display location: without passwords; relative to the lake for a file inside it."""

    def journal_of(self, lake: Lake) -> str:
        """Return the display location of the lake's journal."""
        return self.journal if "://" in self.journal else f"sqlite:///{lake.root}/{self.journal}"


def read(lake: Lake) -> Binding | None:
    """Return the binding of a lake; None if it is not bound to a journal yet.

    Raises:
        Mismatch: the binding cannot be parsed.
        InfrastructureError: a disk or object-store operation failed.
    """
    path = _path(lake)
    with lake.reading():
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return Binding.model_validate_json(content)
    except ValidationError:
        raise Mismatch(
            f"{path} is damaged, so the journal of the lake is unknown: restore it from a copy, "
            f"or configure the journal and write it anew with {ADOPT}"
        ) from None


def lake_id(lake: Lake) -> str:
    """Return the id of a lake; its location if it is not bound to a journal yet.

    Raises:
        Mismatch: the binding cannot be parsed.
        InfrastructureError: a disk or object-store operation failed.
    """
    found = read(lake)
    return found.lake_id if found else str(lake.root)


def bind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, unless it is already bound. Return the binding in effect.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    wanted = Binding(lake_id=uuid.uuid4().hex, journal_id=journal_id, journal=journal)
    create_whole(_path(lake), wanted.model_dump_json().encode())
    # Read again in either case: not every store can keep the first of two concurrent writes.
    found = read(lake)
    if found is None:
        raise InfrastructureError(f"{_path(lake)} was written and has disappeared: run again")
    return found


def rebind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, replacing any earlier binding. Return the new binding.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        before = read(lake)
    except Mismatch:
        before = None
    lake_id = before.lake_id if before else uuid.uuid4().hex
    made = Binding(lake_id=lake_id, journal_id=journal_id, journal=journal)
    write_whole(_path(lake), made.model_dump_json().encode())
    return made


def leave_sign(lake: Lake, sign: str) -> None:
    """Write a marker file that identifies this lake; earlier copies do not have it.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    write_whole(_sign(lake, sign), b"")


def has_sign(lake: Lake, sign: str) -> bool:
    """Return True if the lake has this marker.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    with lake.reading():
        return _sign(lake, sign).exists()


def _path(lake: Lake) -> "Path | UPath":
    return lake.root / ".journal" / "binding.json"


def _sign(lake: Lake, sign: str) -> "Path | UPath":
    return lake.root / ".journal" / f"sign-{sign}"
