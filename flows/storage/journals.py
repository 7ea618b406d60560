"""Locating the journal of a lake: `DURABENCH_DATABASE_URL`, or SQLite next to the tables.

A lake on an object store needs the former, because SQLite needs a disk. The first run binds the
lake and the journal to each other. After that, any other journal is refused: two journals for one
lake would not share leases, budgets and steps, and work paid for in one would be paid for again.
"""

import functools
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from agent.errors import OtherJournal
from agent.journal import Claim, Journal
from agent.journal.blobs import Blobs
from agent.journal.database import is_missing, show_url
from flows.display.errors import Mismatch, UsageError
from flows.storage.lake import Lake, Row
from flows.storage.whole_files import write_whole

if TYPE_CHECKING:
    from upath import UPath
from typing import TYPE_CHECKING

from pydantic import ValidationError

from agent.errors import InfrastructureError
from flows.storage.whole_files import create_whole

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


def read_binding(lake: Lake) -> Binding | None:
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
    binding = read_binding(lake)
    return binding.lake_id if binding else str(lake.root)


def bind(lake: Lake, journal_id: str, journal: str) -> Binding:
    """Bind a lake to a journal, unless it is already bound. Return the binding in effect.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    new = Binding(lake_id=uuid.uuid4().hex, journal_id=journal_id, journal=journal)
    create_whole(_path(lake), new.model_dump_json().encode())
    # Read again in either case: not every store can keep the first of two concurrent writes.
    binding = read_binding(lake)
    if binding is None:
        raise InfrastructureError(f"{_path(lake)} was written and has disappeared: run again")
    return binding


def rebind(lake: Lake, journal_id: str, journal: str) -> tuple[Binding | None, Binding]:
    """Bind a lake to a journal, replacing any earlier binding. Return the old and new binding.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        before = read_binding(lake)
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


VARIABLE = "DURABENCH_DATABASE_URL"
_FILE = "journal.sqlite"


class Home(BaseModel):
    """The lake and the journal of a run, sent to the shards of the run."""

    model_config = ConfigDict(frozen=True)

    lake_id: str
    lake: str
    """Path or URL of the lake on the machine of the run, for display."""
    journal_id: str
    journal: str
    """Location of the journal for display, without passwords."""
    sign: str
    """Marker written to both by the run; earlier copies do not have it."""


def journal_url(lake: Lake) -> str:
    """Return the URL of a lake's journal for SQLAlchemy.

    Raises:
        UsageError: the lake cannot hold a journal, and none is configured.
    """
    if url := os.environ.get(VARIABLE):
        return url
    if not isinstance(lake.root, Path):
        raise UsageError(
            f"the lake {lake.root} is on an object store, which cannot hold the journal: set "
            f"{VARIABLE}=postgresql://… (or sqlite:////folder/journal.sqlite, for one machine)"
        )
    if "?" in str(lake.root):  # the rest would be read as options of the database
        raise UsageError(
            f"the lake {lake.root} has a question mark in its path, so it cannot hold the journal: "
            f"choose another path, or set {VARIABLE}"
        )
    return _default_url(lake)


def open_journal(lake: Lake) -> Journal:
    """Return the journal of a lake, opened once per process. Bind the lake to it if it is unbound.

    Raises:
        UsageError: no journal is configured, or it does not belong to that lake.
        JournalError: the journal cannot be opened; the message gives the reason.
    """
    return _bound(journal_url(lake), lake.root)


def existing_journal(lake: Lake) -> Journal | None:
    """Return the journal of a lake that has been run in; None if there is none.

    Raises:
        UsageError: the configured journal does not belong to the lake.
        JournalError: the journal cannot be opened; the message gives the reason.
    """
    has_file = isinstance(lake.root, Path) and (lake.root / _FILE).is_file()
    if os.environ.get(VARIABLE) or has_file:
        return _open(journal_url(lake), lake.root)
    if binding := read_binding(lake):
        raise _mismatch(lake, binding)
    return None


def blobs(lake: Lake) -> Blobs:
    """Return the content-addressed storage of large payloads and work trees of attempts."""
    return Blobs(lake.root / "blobs")


def claim(lake: Lake, experiment: str) -> None:
    """Claim an experiment in the journal for a lake: its rows and payloads are in one place.

    Raises:
        Mismatch: the experiment belongs to another lake.
    """
    journal, binding = open_journal(lake), read_binding(lake)
    assert binding is not None, "its journal was opened"
    owner = journal.claim(experiment, Claim(binding.lake_id, str(lake.root)))
    if owner.lake_id != binding.lake_id:
        raise Mismatch(
            f"experiment {experiment!r} of the journal {binding.journal_of(lake)} belongs to the "
            f"lake {owner.lake}, and this is the lake {lake.root}: set DURABENCH_LAKE or --lake to "
            f"that one, or run under another --name; if that lake is gone for good, {ADOPT} gives "
            "its experiments to this one"
        )


def home(lake: Lake) -> Home:
    """Write the marker of a run to its lake and journal. Return the home for its workers."""
    journal, binding, sign = open_journal(lake), read_binding(lake), uuid.uuid4().hex
    assert binding is not None, "its journal was opened"
    write_whole(sign_path(lake, sign), b"")
    journal.leave_sign(sign)
    return Home(
        lake_id=binding.lake_id,
        lake=str(lake.root),
        journal_id=journal.id,
        journal=show_url(journal_url(lake)),
        sign=sign,
    )


def check_home(lake: Lake, wanted: Home) -> None:
    """Check that the run that scheduled the work uses the same lake and journal.

    Raises:
        Mismatch: one of them differs; nothing was written.
        JournalError: the journal cannot be opened.
    """
    what = f"the run that ordered this cell has its lake at {wanted.lake}"
    mend = "set DURABENCH_LAKE of this worker to that one and restart it"
    binding = read_binding(lake)
    if binding is None or binding.lake_id != wanted.lake_id:
        raise Mismatch(f"{what}, and this worker has another at {lake.root}: {mend}")
    with lake.reading():
        has_sign = sign_path(lake, wanted.sign).exists()
    if not has_sign:
        raise Mismatch(f"{what}, and this worker has a copy of it at {lake.root}: {mend}")
    what = f"the run that ordered this cell has its journal at {wanted.journal}"
    mend = f"{_remedy(wanted.journal, lake)} for this worker and restart it"
    url = journal_url(lake)
    if binding.journal_id != wanted.journal_id:
        raise Mismatch(f"{what}, and the lake {lake.root} was bound to another since: run again")
    try:
        journal = _open(url, lake.root)
    except Mismatch:
        raise Mismatch(f"{what}, and this worker's is at {show_url(url)}: {mend}") from None
    if not journal.has_sign(wanted.sign):
        raise Mismatch(f"{what}, and this worker has a copy of it at {show_url(url)}: {mend}")


def adopt(lake: Lake) -> tuple[Binding | None, Binding, int]:
    """Bind a lake to the configured journal, replacing any binding, and claim all its experiments.

    Return the binding before and after, and the number of experiments taken from another lake.

    Raises:
        UsageError: no journal is configured.
        JournalError: the journal cannot be opened.
    """
    url = journal_url(lake)
    journal = Journal.open(url, blobs=blobs(lake))
    try:
        before, after = rebind(lake, journal.id, _relative(lake, url))
        taken = journal.hand_over(Claim(after.lake_id, str(lake.root)))
    finally:
        journal.close()
    forget()
    return before, after, taken


def forget() -> None:
    """Clear the caches of lakes and journals."""
    _open.cache_clear()
    _bound.cache_clear()


def unknown_attempt(lake: Lake, known: set[str]) -> tuple[str, str] | None:
    """Return experiment and id of an attempt that was run in a lake but is not in `known`."""
    for experiment in lake.experiments():
        if set(lake.units("attempts", "*", experiment)) - known:
            for row in lake.rows("attempts", experiment):
                if row["attempt_id"] not in known and was_run(row):
                    return experiment, row["attempt_id"]
    return None


@functools.cache
def _bound(url: str, root: "Path | UPath") -> Journal:
    lake = Lake(root)
    if read_binding(lake) is None:
        check_knows(lake, url)
    lake.make_folder()
    journal = _open(url, root)
    binding = bind(lake, journal.id, _relative(lake, url))
    if binding.journal_id != journal.id:
        forget()
        raise _mismatch(lake, binding)
    return journal


@functools.cache
def _open(url: str, root: "Path | UPath") -> Journal:
    lake = Lake(root)
    binding = read_binding(lake)
    expected = binding.journal_id if binding else None
    try:
        return Journal.open(url, blobs=blobs(lake), expected_id=expected)
    except OtherJournal:
        assert binding is not None, "another one was expected"
        raise _mismatch(lake, binding) from None


def check_knows(lake: Lake, url: str) -> None:
    """Check that the journal at a URL knows every attempt that was run in a lake.

    Raises:
        Mismatch: an attempt is missing, so another journal has it.
    """
    if unknown_attempt(lake, set()) is None:
        return
    attempts = [] if is_missing(url) else _open(url, lake.root).find("")
    if unknown := unknown_attempt(lake, {attempt.attempt_id for attempt in attempts}):
        experiment, attempt_id = unknown
        raise Mismatch(
            f"attempt {attempt_id} of {experiment!r} is in the lake {lake.root} and not in the "
            f"journal {show_url(url)}: set {VARIABLE} to the journal that has it; {_LAST_RESORT}"
        )


def _mismatch(lake: Lake, binding: Binding) -> Mismatch:
    bound = binding.journal_of(lake)
    url = os.environ.get(VARIABLE)
    used = show_url(url) if url else _default_url(lake)
    remedy = _remedy(bound, lake)
    if used == bound:
        now, remedy = "and there is another or none now", "restore the old one from a copy"
    elif url:
        now = f"and the one in use is {used}"
    else:
        now = f"and {VARIABLE} is not set" + (f", which means {used}" if used else "")
    return Mismatch(
        f"the lake {lake.root} belongs to the journal {bound}, {now}: {remedy}; {_LAST_RESORT}"
    )


_LAST_RESORT = (
    f"if that journal is gone for good, {ADOPT} binds the lake to the one in use, and work that "
    "only the old one recorded is paid for again"
)


def _remedy(url: str, lake: Lake) -> str:
    return f"unset {VARIABLE}" if url == _default_url(lake) else f"set {VARIABLE}={url}"


def _default_url(lake: Lake) -> str:
    """Return the URL of the journal inside the lake; empty for an object store."""
    return f"sqlite:///{lake.root / _FILE}" if isinstance(lake.root, Path) else ""


def _relative(lake: Lake, url: str) -> str:
    """Return the location of a journal for the lake; relative, so that both can be moved."""
    return show_url(url).removeprefix(f"sqlite:///{lake.root}/")


def is_refused(row: Row) -> bool:
    """Return True if the attempt never started because the image of its instance is unfit."""
    if row["outcome"] == "infrastructure":  # as in release 0.1
        return bool(row["detail"].startswith("preflight failed"))
    return bool(row["outcome"] == "refused")


def was_run(row: Row) -> bool:
    """Return False for imports and for refused attempts; no journal has them."""
    return row["environment"] != "imported" and not is_refused(row)
