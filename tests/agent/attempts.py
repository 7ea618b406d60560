"""An attempt with a journal, whose session can be opened any number of times."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import Model
from agent.session.log import JournalLog
from agent.session.session import Session

_OF_LOG = {field.name for field in fields(JournalLog) if field.init}


def begin(folder: Path, name: str = "a") -> Journal:
    """Return a journal on SQLite in a folder, with one attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
    journal.start(Attempt(name, "experiment", "arm", "instance", 0, "{}"))
    return journal


@asynccontextmanager
async def open_session(
    journal: Journal, folder: Path, model: Model | None, name: str = "a", **options: Any
) -> AsyncIterator[Session]:
    """Lease the attempt, and yield its session, whose recorded steps answer.

    `options` are those of the session, and of its log.
    """
    of_log = {key: options.pop(key) for key in _OF_LOG & options.keys()}
    async with hold_lease(journal, name) as lease:
        recorded = journal.steps(name)
        log = JournalLog(journal, lease, Blobs(folder / "blobs"), recorded, **of_log)
        async with Session.start(
            attempt_id=name, models={"": model} if model else {}, log=log, **options
        ) as session:
            yield session
