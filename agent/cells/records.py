"""The record of one run of a cell, as the kernel reports it."""

from pydantic import BaseModel, ConfigDict

Places = dict[str, str | None]
"""By variable, the digest of its stored value, or `!` and the reason why it is not stored.

None: read, but no cell had written it; or deleted. A name with `@` is a class that a cell defined.
"""


def is_unstored(place: str | None) -> bool:
    """Return True for the place of a value that cannot be stored."""
    return place is not None and place.startswith("!")


class CellFailure(BaseModel):
    """The error that ended a cell."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The traceback."""
    kind: str = ""
    name: str = ""
    """The name that has no value, if that is the error."""
    importable: bool = False
    """True if a module of that name, or with that usual abbreviation, can be imported."""


class CellRecord(BaseModel):
    """The effects of one run of a cell."""

    model_config = ConfigDict(frozen=True)

    output: str = ""
    error: CellFailure | None = None
    reads: Places = {}
    writes: Places = {}
    files_read: dict[str, str | None] = {}
    """Digests of files under the root before the cell changed them; None: there was none."""
    files_written: dict[str, str | None] = {}
    """Digests afterwards; None: it was removed."""
    programs: bool = False
    """True if it started other programs, whose files nothing sees."""
    tree: str = ""
    """The work tree after it, if it started programs."""
    lost: list[str] = []
    """Variables that it needs and the store no longer has. Nothing else is set then."""
    lost_by: dict[int, list[str]] = {}
    """The same for cells that run again within it, by their numbers."""
    changed: list[str] = []
    """Files that the step changed, as for any tool."""
    put_back: list[str] = []
    """Protected files that it had changed."""
    ended: str = ""
    """The reason why the record is missing, or ''."""

    @property
    def failed(self) -> bool:
        """True if the cell did not end by itself and without an error."""
        return self.error is not None or bool(self.ended)


class Look(BaseModel):
    """Files of the repository as they are now."""

    model_config = ConfigDict(frozen=True)

    files: dict[str, str | None] = {}
    tree: str = ""


NOT_RUN = CellRecord(ended="it was not run")
