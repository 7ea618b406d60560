"""Steps are read back as they were written, once and in order."""

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.errors import JournalError
from agent.journal import Attempt, FreeStep, Journal, Lease, NewStep, TreeRef
from agent.journal.blobs import Blobs
from tests.agent.journal.workers import attempt, intend, record


def test_steps_come_back_by_scope_and_seq_as_they_were_written(
    journal: Journal, lease: Lease
) -> None:
    """In whatever order branches wrote them. Times are in UTC."""
    for scope, seq in [("plan/B", 0), ("", 10), ("plan/a", 1), ("", 2), ("plan/a", 0)]:
        intend(journal, lease, seq, scope=scope)
        record(journal, lease, seq, scope=scope)
    intend(journal, lease, 3, scope="s", usd=0.25, request=b'{"q": 1}')
    record(journal, lease, 3, scope="s", cost=0.0123, result=b"r", tree=TreeRef("abc", "def"))
    *others, step = journal.steps("a1")
    places = [(step.scope, step.seq) for step in others]
    assert places == [("", 2), ("", 10), ("plan/B", 0), ("plan/a", 0), ("plan/a", 1)]
    assert (step.kind, step.digest, step.request, step.result) == (
        "model", "d" * 64, b'{"q": 1}', b"r"
    )  # fmt: skip
    assert (step.cost_usd, step.duration_s, step.tree) == (0.0123, 0.5, TreeRef("abc", "def"))
    assert abs(datetime.now(UTC) - step.started_at) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (TreeRef("t1", "d1"), "t1 d1"),
        (TreeRef("t1", "d1", "repository:tag"), "t1 d1 repository:tag"),
        (TreeRef("", ""), ""),
    ],
)
def test_the_text_of_a_work_tree_is_that_of_the_first_release(
    tmp_path: Path, tree: TreeRef, text: str
) -> None:
    """The stored text of a work tree never changes, because request digests include it."""
    journal = Journal.open(f"sqlite:///{tmp_path}/journal.sqlite")
    journal.start(attempt("a1"))
    lease = journal.acquire("a1", "first", 300)
    journal.append(lease, FreeStep(NewStep("", 0, "command", "d", b"{}"), b"done", 0.0, tree))
    assert [step.tree for step in journal.steps("a1")] == [tree]
    journal.close()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection:
        assert connection.execute("select tree from steps").fetchall() == [(text,)]


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 256 * 1024 + 1, 1024 * 1024])
def test_bodies_round_trip(journal: Journal, lease: Lease, size: int) -> None:
    """Requests and results of any size and content are read back unchanged."""
    noise, text = random.Random(size).randbytes(size), b"x" * size
    intend(journal, lease, 0, request=noise)
    record(journal, lease, 0, result=text)
    (step,) = journal.steps("a1")
    assert step.request == noise
    assert step.result == text


def test_large_bodies_are_stored_as_blobs(url: str, tmp_path: Path) -> None:
    """Large requests are stored as blobs, and a damaged blob is detected."""
    blobs = Blobs(tmp_path / "store")
    journal = Journal.open(url, blobs)
    journal.start(attempt("a1"))
    lease = journal.acquire("a1", "first", 300)
    intend(journal, lease, 0, request=b"y" * 300_000)
    (file,) = [path for path in blobs.root.rglob("*") if path.is_file()]
    assert journal.steps("a1")[0].request == b"y" * 300_000
    file.write_bytes(b"something else")
    with pytest.raises(JournalError, match="damaged"):
        journal.steps("a1")


def test_what_is_written_stays_and_is_billed_once(journal: Journal, lease: Lease) -> None:
    """A step is begun with one request and has one result. Writing either again changes nothing."""
    with pytest.raises(JournalError, match="not started by this worker"):
        record(journal, lease, 0)
    for _ in range(2):
        intend(journal, lease, 0, usd=0.1)
    with pytest.raises(JournalError, match="step 0 of attempt a1 is started with another"):
        intend(journal, lease, 0, usd=0.1, digest="e" * 64)
    for _ in range(2):
        record(journal, lease, 0, cost=0.05)
    with pytest.raises(JournalError, match="step 0 of attempt a1 is recorded already"):
        intend(journal, lease, 0, usd=0.1)
    with pytest.raises(JournalError, match="recorded with another result"):
        record(journal, lease, 0, cost=0.05, result=b"other")
    account = journal.account("a1")
    assert (account.billed_usd, account.calls_billed, account.calls_credited) == (0.05, 1, 1)


def test_a_cancelled_call_leaves_nothing(journal: Journal, lease: Lease) -> None:
    """A cancelled intent is not billed, and the step can be begun again with another request."""
    intend(journal, lease, 0, usd=0.1)
    for _ in range(2):
        journal.cancel(lease, "", 0)
    assert journal.steps("a1") == []
    assert journal.account("a1").billed_usd == 0
    intend(journal, lease, 0, usd=0.2, digest="e" * 64)
    assert journal.account("a1").billed_usd == 0.2


def test_attempts_are_declared_once(journal: Journal, started: Attempt) -> None:
    """Starting the same attempt again has no effect. Starting another under its id is refused."""
    journal.start(started)
    assert journal.attempt("a1") == started
    assert journal.attempt("a2") is None
    with pytest.raises(JournalError, match="another spec") as caught:
        journal.start(replace(started, spec='{"model": "other"}'))
    assert not caught.value.retryable


def test_attempts_are_found_by_the_letters_of_their_prefix(journal: Journal) -> None:
    """A prefix is matched literally: case counts and there are no wildcards."""
    for name in ("ab_1", "abX1", "AB_1", "ab_2", "b"):
        journal.start(attempt(name))
    assert [one.attempt_id for one in journal.find("ab_")] == ["ab_1", "ab_2"]
    assert len(journal.find("")) == 5


def test_an_ended_attempt_can_be_reopened(journal: Journal, lease: Lease) -> None:
    """An attempt that ended because its budget ran out can be reopened."""
    assert journal.outcome("a1") is None
    journal.end(lease, '{"status": "out_of_budget"}')
    assert journal.outcome("a1") == '{"status": "out_of_budget"}'
    journal.reopen(lease)
    assert journal.outcome("a1") is None


@pytest.fixture
def parent(journal: Journal, lease: Lease) -> None:
    """Steps: main line 0, branch x/0, main line 1, branch y/0 (only begun), main line 2."""
    for scope, seq in [("", 0), ("x", 0), ("", 1)]:
        intend(journal, lease, seq, scope=scope, usd=0.10)
        record(journal, lease, seq, scope=scope, cost=0.04, tree=TreeRef(f"tree{seq}", "delta"))
    intend(journal, lease, 0, scope="y", usd=0.10)
    intend(journal, lease, 2, usd=0.10)
    record(journal, lease, 2, cost=None)


@pytest.mark.usefixtures("parent")
def test_a_fork_gets_the_prefix_as_credit(journal: Journal) -> None:
    """A fork gets the earlier results of all scopes and is billed for none of them."""
    assert journal.fork("a1", attempt("child"), "", 2) == 3
    copied = journal.steps("child")
    given = [step for step in journal.steps("a1") if step.tree is not None]
    assert copied == [replace(step, copied=True) for step in given]
    account = journal.account("child")
    assert (account.billed_usd, account.calls_billed) == (0, 0)
    assert (account.credited_usd, account.calls_credited) == (0.12, 3)
    child = journal.attempt("child")
    assert child is not None
    assert (child.parent_id, child.fork_scope, child.fork_seq) == ("a1", "", 2)


@pytest.mark.usefixtures("parent")
def test_a_fork_needs_its_step(journal: Journal) -> None:
    """Forking at a step that the parent does not have is an error and creates no attempt."""
    with pytest.raises(JournalError, match="attempt a1 has no step z/7 to fork at"):
        journal.fork("a1", attempt("child"), "z", 7)
    assert journal.attempt("child") is None
