"""Which journal a lake belongs to: written into the lake by its first run, and never by chance.

Two journals for one lake know nothing of each other's leases, budgets and steps, and what one of
them has paid for would be bought again through the other.
"""

import uuid
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import InfrastructureError
from flows.errors import Mismatch
from flows.storage.lake import Lake, create_whole, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

ADOPT = "`durabench doctor --adopt-journal`"


class Binding(BaseModel):
    """A lake and its journal, by their ids, and where the journal was then."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    lake_id: str
    journal_id: str
    journal: str
    """For people: without passwords; a file inside the lake relative to it."""

    def journal_of(self, lake: Lake) -> str:
        """Where the journal of the lake is, for people."""
        return self.journal if "://" in self.journal else f"sqlite:///{lake.root}/{self.journal}"


def read(lake: Lake) -> Binding | None:
    """What a lake says of itself; None if it belongs to no journal yet.

    Raises:
        Mismatch: it cannot be understood.
        InfrastructureError: the disk or the store refuses.
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
            f"{path} is damaged, so which journal the lake belongs to is unknown: bring it back "
            f"from a copy, or name the journal and write it anew with {ADOPT}"
        ) from None


def bind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, unless it is bound. Return the binding that holds.

    Raises:
        InfrastructureError: the disk or the store refuses.
    """
    wanted = Binding(lake_id=uuid.uuid4().hex, journal_id=journal_id, journal=journal)
    create_whole(_path(lake), wanted.model_dump_json().encode())
    # Read again in either case: not every store knows how to keep the first of two.
    found = read(lake)
    if found is None:
        raise InfrastructureError(f"{_path(lake)} was written and is not there: run again")
    return found


def rebind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, whatever it was bound to. Return the new binding.

    Raises:
        InfrastructureError: the disk or the store refuses.
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
    """Leave a sign by which others recognise this lake, copies excluded.

    Raises:
        InfrastructureError: the disk or the store refuses.
    """
    write_whole(_sign(lake, sign), b"")


def has_sign(lake: Lake, sign: str) -> bool:
    """Whether a sign was left here.

    Raises:
        InfrastructureError: the disk or the store refuses.
    """
    with lake.reading():
        return _sign(lake, sign).exists()


def _path(lake: Lake) -> "Path | UPath":
    return lake.root / ".journal" / "binding.json"


def _sign(lake: Lake, sign: str) -> "Path | UPath":
    return lake.root / ".journal" / f"sign-{sign}"
