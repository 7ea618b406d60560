"""The binding of a lake to its journal, written into the lake by its first run.

Two journals for one lake would not share leases, budgets and steps, and work paid for in one would
be paid for again through the other.
"""

import uuid
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import InfrastructureError
from flows.display.errors import Mismatch
from flows.storage.lake import Lake
from flows.storage.whole_files import create_whole, write_whole

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
            f"or configure the journal and write it again with {ADOPT}"
        ) from None


def lake_id(lake: Lake) -> str:
    """Return the id of a lake; its location if it is not bound to a journal yet.

    Raises:
        Mismatch, InfrastructureError: see `read`.
    """
    binding = read(lake)
    return binding.lake_id if binding else str(lake.root)


def bind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, unless it is already bound. Return the binding in effect.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    new = Binding(lake_id=uuid.uuid4().hex, journal_id=journal_id, journal=journal)
    create_whole(_path(lake), new.model_dump_json().encode())
    # Read again in either case: not every store can keep the first of two concurrent writes.
    binding = read(lake)
    if binding is None:
        raise InfrastructureError(f"{_path(lake)} was written and has disappeared: run again")
    return binding


def rebind(lake: Lake, journal_id: str, journal: str) -> tuple[Binding | None, Binding]:
    """Bind a lake to a journal, replacing any earlier binding. Return the old and new binding.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        before = read(lake)
    except Mismatch:
        before = None
    lake_id = before.lake_id if before else uuid.uuid4().hex
    after = Binding(lake_id=lake_id, journal_id=journal_id, journal=journal)
    write_whole(_path(lake), after.model_dump_json().encode())
    return before, after


def sign_path(lake: Lake, sign: str) -> "Path | UPath":
    """Return the path of a marker file that identifies a lake; earlier copies do not have it."""
    return _path(lake).with_name(f"sign-{sign}")


def _path(lake: Lake) -> "Path | UPath":
    return lake.root / ".journal" / "binding.json"
