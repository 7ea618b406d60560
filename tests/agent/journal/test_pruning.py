"""Pruning a journal removes the steps of ended attempts and keeps their outcome and costs."""

from pathlib import Path

import pytest

from agent.errors import BudgetExhausted, FencedError, JournalError, LeaseHeld
from agent.journal import Attempt, FreeStep, Holding, Journal, Lease, Limit, NewStep, TreeRef
from agent.journal.blobs import BLOB_ABOVE, Blobs
from tests.agent.journal.workers import attempt, budget, intend, record

TREE = TreeRef("t1", "d1")
WHOLE = Limit("experiment", "exp", None, None)


@pytest.fixture
def ended(journal: Journal, lease: Lease) -> Attempt:
    """An attempt that ended after a call, a command and an unfinished call."""
    intend(journal, lease, 0, usd=0.50)
    record(journal, lease, 0, cost=0.30, result=b"x" * 100)
    journal.append(lease, FreeStep(NewStep("", 1, "command", "d", b"{}"), b"done", 0.0, TREE))
    intend(journal, lease, 2, usd=0.10)
    journal.end(lease, '{"status": "submitted"}')
    journal.release(lease)
    return attempt("a1")


def holding(journal: Journal, attempt_id: str) -> Holding:
    """Return what the journal stores for one attempt."""
    [found] = [
        each for each in journal.retention.holdings() if each.attempt.attempt_id == attempt_id
    ]
    return found


def test_holdings_describe_each_attempt(journal: Journal, ended: Attempt) -> None:
    """A holding has the attempt's state, its holder, the size of its steps and its idle time."""
    journal.start(attempt("a2"))
    journal.acquire("a2", "first", 300)
    one, other = holding(journal, "a1"), holding(journal, "a2")
    assert one.attempt == ended
    assert (one.has_ended, one.is_pruned, one.is_held, one.steps) == (True, False, False, 2)
    assert one.size_bytes > 100
    assert one.idle_s is not None
    assert -1 < one.idle_s < 60
    assert (other.has_ended, other.is_held, other.steps, other.size_bytes) == (False, True, 0, 0)
    assert other.idle_s is None


@pytest.mark.usefixtures("ended")
def test_pruning_keeps_the_outcome_and_every_cent(journal: Journal) -> None:
    """Pruning removes the steps but changes neither billed amounts nor spending against limits."""
    billed, spent = journal.account("a1").billed_usd, journal.spent(WHOLE)
    journal.retention.prune("a1")
    journal.retention.prune("a1")
    assert journal.steps("a1") == []
    assert journal.outcome("a1") == '{"status": "submitted"}'
    assert journal.pruned_at("a1") is not None
    assert journal.account("a1").billed_usd == billed == pytest.approx(0.40)
    assert journal.spent(WHOLE) == spent
    kept = holding(journal, "a1")
    assert (kept.is_pruned, kept.steps, kept.size_bytes) == (True, 0, 0)


def test_an_attempt_that_has_not_ended_keeps_its_steps(journal: Journal, lease: Lease) -> None:
    """An attempt that is leased or could still be resumed can be neither pruned nor removed."""
    intend(journal, lease, 0, usd=0.50)
    with pytest.raises(LeaseHeld, match="a1 is held by first"):
        journal.retention.prune("a1")
    with pytest.raises(LeaseHeld):
        journal.retention.remove("a1")
    journal.release(lease)
    with pytest.raises(JournalError, match="a1 has not ended"):
        journal.retention.prune("a1")
    with pytest.raises(JournalError, match="no attempt missing"):
        journal.retention.prune("missing")
    assert len(journal.steps("a1")) == 1
    assert journal.pruned_at("a1") is None
    intend(journal, journal.acquire("a1", "second", 300), 1)


@pytest.mark.parametrize("method", ["prune", "remove"])
def test_a_worker_whose_lease_expired_cannot_write_afterwards(
    journal: Journal, method: str
) -> None:
    """A worker whose lease expired unnoticed cannot write, even if the attempt is started again."""
    journal.start(attempt("a1"))
    asleep = journal.acquire("a1", "first", 0.0)
    journal.end(asleep, "{}")
    getattr(journal.retention, method)("a1")
    journal.start(attempt("a1"))
    with pytest.raises(FencedError):
        journal.check(asleep)
    with pytest.raises(FencedError):
        intend(journal, asleep, 0, usd=0.1)


@pytest.mark.usefixtures("ended")
def test_a_removed_attempt_leaves_room_in_every_budget(journal: Journal) -> None:
    """A removed attempt counts against no limit, others still do, and it can be started again."""
    journal.start(attempt("a2"))
    other = journal.acquire("a2", "first", 300)
    intend(journal, other, 0, usd=0.50)
    with pytest.raises(BudgetExhausted):
        intend(journal, other, 1, usd=0.50, limits=budget(1.0))
    journal.retention.remove("a1")
    assert [one.attempt_id for one in journal.find("")] == ["a2"]
    assert journal.spent(WHOLE) == (0.50, 1)
    assert journal.spent(Limit("attempt", "a1", None, None)) == (0.0, 0)
    intend(journal, other, 1, usd=0.50, limits=budget(1.0))

    journal.start(attempt("a1", spec="another"))
    anew = journal.acquire("a1", "first", 300)
    intend(journal, anew, 0, usd=0.25)
    assert journal.account("a1").billed_usd == 0.25


def test_references_of_steps_are_listed(url: str, tmp_path: Path) -> None:
    """References list blobs and deltas that steps use. Those of chosen attempts can be left out."""
    blobs = Blobs(tmp_path / "blobs")
    journal = Journal.open(url, blobs)
    large = {name: name.encode() * (BLOB_ABOVE + 1) for name in ("q", "r", "s")}
    for name in ("a1", "a2"):
        journal.start(attempt(name))
        lease = journal.acquire(name, name, 300)
        intend(journal, lease, 0, request=large["q" if name == "a1" else "s"])
        tree = TreeRef(f"tree-{name}", f"delta-{name}", "image")
        record(journal, lease, 0, result=large["r"], tree=tree)
        journal.release(lease)
    kept = {path.name for path in blobs.root.glob("*/*")}
    assert len(kept) == 3
    assert journal.retention.references().names == kept | {"delta-a1", "delta-a2"}
    without = journal.retention.references(["a1"]).names
    assert len(kept & without) == 2
    assert "delta-a2" in without
    assert "delta-a1" not in without
    journal.close()


def test_quiet_work_is_refused_while_attempts_are_leased(journal: Journal, lease: Lease) -> None:
    """Work that needs quiet is refused while an attempt is leased or was leased meanwhile."""
    done = []
    assert journal.retention.references().turns is None
    journal.release(lease)
    turns = journal.retention.references().turns
    assert turns is not None
    assert journal.retention.run_undisturbed(turns, lambda: done.append("quiet"))
    journal.release(journal.acquire("a1", "second", 300))
    assert not journal.retention.run_undisturbed(turns, lambda: done.append("taken since"))
    journal.acquire("a1", "second", 0.0)
    assert journal.retention.references().turns is None
    assert done == ["quiet"]


def test_compaction_shrinks_the_file(tmp_path: Path) -> None:
    """On SQLite, compaction frees the disk space of pruned steps. A second one frees nothing."""
    path = tmp_path / "journal.db"
    journal = Journal.open(f"sqlite:///{path}")
    journal.start(attempt("a1"))
    lease = journal.acquire("a1", "first", 300)
    for seq in range(300):
        intend(journal, lease, seq)
        record(journal, lease, seq, result=bytes(range(256)) * 3)
    journal.end(lease, "{}")
    journal.release(lease)
    assert journal.retention.compact() == 0
    journal.retention.prune("a1")
    freed = journal.retention.compact()
    assert freed > 225_000
    assert path.stat().st_size < freed
    assert path.with_name("journal.db-wal").stat().st_size == 0
    assert journal.retention.compact() == 0
    assert journal.outcome("a1") == "{}"
    journal.close()
