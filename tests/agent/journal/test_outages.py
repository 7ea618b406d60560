"""Database outages lose and duplicate nothing, and waiting for the database is bounded."""

import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from agent.errors import JournalError
from agent.journal import Journal, Lease, database
from tests.agent.journal.workers import attempt, budget, intend, record, write_until_full
from tests.servers.postgres import PostgresServer, free_port

SPAWN = multiprocessing.get_context("spawn")


class AnswerLost(Exception):
    """A driver's error after the server disappeared."""

    sqlstate = "08006"


def test_a_commit_whose_answer_is_lost_counts_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating a write whose commit was not confirmed leaves the journal as one write does."""
    retry, commits = database.Database._retry, 0

    def lose_answers(self: database.Database, run: Callable[[], Any]) -> Any:
        def commit() -> Any:
            nonlocal commits
            result = run()
            commits += 1
            if commits % 2:
                raise OperationalError("COMMIT", {}, AnswerLost())
            return result

        return retry(self, commit)

    monkeypatch.setattr(database.Database, "_retry", lose_answers)
    journal.start(attempt("a1"))
    lease = journal.acquire("a1", "first", 300)
    journal.renew(lease, 300)
    for seq in range(3):
        intend(journal, lease, seq, usd=0.1, limits=budget(0.3, 3))
        record(journal, lease, seq, cost=0.05)
    intend(journal, lease, 3, usd=0.1, limits=budget(0.25, 4))
    journal.cancel(lease, "", 3)
    intend(journal, lease, 3)
    record(journal, lease, 3)
    assert journal.fork("a1", attempt("child"), "", 2) == 2
    journal.end(lease, "{}")
    journal.release(lease)
    monkeypatch.undo()

    account = journal.account("a1")
    assert (account.billed_usd, account.calls_billed, account.calls_credited) == (0.15, 3, 3)
    assert journal.spent(budget()[0]) == (0.15, 3)
    assert [step.result for step in journal.steps("a1")] == [b"done"] * 4
    assert len(journal.steps("child")) == 2
    assert journal.outcome("a1") == "{}"
    assert journal.active() == set()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgresql_restarts_in_the_middle_of_a_series(postgres: PostgresServer, mode: str) -> None:
    """Writers wait while the server is down. Every step is recorded once and billed once."""
    journal = Journal.open(postgres.create_database())
    failures: list[Exception] = []
    written = [0, 0, 0]

    def write(number: int) -> None:
        name = f"a{number}"
        try:
            journal.start(attempt(name))
            lease = journal.acquire(name, name, 300)
            while written[number] < 60 or not restarted.is_set():
                intend(journal, lease, written[number], usd=0.01, limits=budget(1000.0))
                record(journal, lease, written[number], cost=0.005)
                written[number] += 1
        except Exception as error:
            failures.append(error)

    restarted = threading.Event()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    while min(written) < 10 and not failures:
        time.sleep(0.02)
    postgres.restart(away_s=1.5, mode=mode)
    restarted.set()
    for thread in threads:
        thread.join()

    assert failures == []
    for number, count in enumerate(written):
        steps = journal.steps(f"a{number}")
        assert [(step.seq, step.result) for step in steps] == [(n, b"done") for n in range(count)]
        account = journal.account(f"a{number}")
        assert (account.calls_billed, account.calls_credited) == (count, count)
    assert journal.spent(budget()[0]) == (pytest.approx(0.005 * sum(written)), sum(written))
    journal.close()


def test_a_worker_that_hangs_in_a_transaction_blocks_no_other(postgres: PostgresServer) -> None:
    """PostgreSQL ends the transaction of a stopped worker, so that other workers can continue."""
    journal = Journal.open(postgres.create_database())
    for name in ("a1", "a2"):
        journal.start(attempt(name))
    free = journal.acquire("a2", "a2", 300)
    inside, hung = threading.Event(), []

    def hang(connection: Any) -> None:
        database.execute(connection, "UPDATE totals SET calls = calls + 1")
        if not inside.is_set():
            inside.set()
            time.sleep(14)
            hung.append(True)

    thread = threading.Thread(target=journal.database.write, args=(hang,))
    thread.start()
    inside.wait()
    before = time.monotonic()
    intend(journal, free, 0, usd=0.1)
    assert time.monotonic() - before < 13
    assert hung == []
    thread.join()
    # The hanging transaction was rolled back and repeated.
    assert journal.spent(budget()[0]) == (0.1, 2)
    journal.close()


def test_a_file_that_stays_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting is bounded. The error names the file and the reason, and is retryable."""
    monkeypatch.setattr(database, "SQLITE_BUSY_MS", 100)
    journal, lease = _sqlite(tmp_path, patience_s=0.5)
    other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match=r"j\.db fails: database is locked") as caught:
        intend(journal, lease, 0)
    assert caught.value.retryable
    assert journal.steps("a1") == []
    other.execute("ROLLBACK")
    intend(journal, lease, 0)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """Steps recorded before the disk was full are kept, and writing resumes once there is space."""
    journal, lease = _sqlite(tmp_path)
    journal.release(lease)
    here, there = SPAWN.Pipe()
    arguments = (f"sqlite:///{tmp_path / 'j.db'}", "a1", 600_000, there)
    writer = SPAWN.Process(target=write_until_full, args=arguments)
    writer.start()
    written, retryable, message = here.recv()
    assert here.recv() == "went on"
    writer.join()
    assert written > 3
    assert retryable, message
    steps = journal.steps("a1")
    assert [step.seq for step in steps] == list(range(written + 1))
    assert all(step.result is not None for step in steps)
    assert journal.account("a1").calls_billed == written + 1


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    """The error names a file that is not a database and is not retryable."""
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and quite a lot of them\n" * 100)
    with pytest.raises(JournalError, match=r"notes\.txt fails: file is not a database") as caught:
        Journal.open(f"sqlite:///{path}")
    assert not caught.value.retryable


def test_an_unreachable_server_is_named_without_its_password() -> None:
    """The error is one line and names the server that does not answer."""
    url = f"postgresql://bench:secret@127.0.0.1:{free_port()}/bench"
    with pytest.raises(JournalError, match=r"bench:\*\*\*@127.0.0.1") as caught:
        Journal.open(url, patience_s=0.2)
    assert caught.value.retryable
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://localhost/x", "be SQLite or PostgreSQL, not mysql"),
        ("sqlite://", "in memory keeps nothing"),
        ("sqlite:///:memory:", "in memory keeps nothing"),
        ("no url at all", "URL is not one"),
    ],
)
def test_other_databases_are_refused(url: str, reason: str) -> None:
    """Only SQLite files and PostgreSQL are accepted: nothing else is safe for a journal."""
    with pytest.raises(JournalError, match=reason) as caught:
        Journal.open(url)
    assert not caught.value.retryable


def test_a_cluster_without_an_encoding_is_understood(postgres: PostgresServer) -> None:
    """A PostgreSQL cluster with the C locale stores non-ASCII text unchanged."""
    options = ["--encoding", "SQL_ASCII", "--locale", "C", "--template", "template0"]
    journal = Journal.open(postgres.create_database("psycopg", *options))
    begun = attempt("a1", instance_id="größer→kleiner")
    journal.start(begun)
    assert journal.attempt("a1") == begun


def _sqlite(folder: Path, patience_s: float = 5.0) -> tuple[Journal, Lease]:
    journal = Journal.open(f"sqlite:///{folder / 'j.db'}", patience_s=patience_s)
    journal.start(attempt("a1"))
    return journal, journal.acquire("a1", "first", 300)
