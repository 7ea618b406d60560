"""The state of an attempt as its mailbox shows it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.journal import Attempt, Journal
from agent.journal.holding import worker
from flows.jobs.mailbox import Mailbox
from tests.agent.journal.workers import attempt


@pytest.mark.parametrize("read", ["outcome", "holder"])
def test_an_attempt_that_ends_during_a_look_is_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """It ends after one of the two reads of the journal, and is seen as busy or as ended."""
    journal = Journal.open(f"sqlite:///{tmp_path / 'journal.sqlite'}")
    one: Attempt = attempt("a1")
    journal.start(one)
    lease = journal.acquire("a1", worker(), 300)
    original: Callable[[str], str | None] = getattr(journal, read)

    def and_then_ends(attempt_id: str) -> str | None:
        found = original(attempt_id)
        monkeypatch.undo()
        journal.end(lease, '{"status": "submitted", "detail": ""}')
        journal.release(lease)
        return found

    monkeypatch.setattr(journal, read, and_then_ends)
    assert Mailbox(journal, one).get_state().standing in {"busy", "ended"}
    assert Mailbox(journal, one).get_state().standing == "ended"
    journal.close()
