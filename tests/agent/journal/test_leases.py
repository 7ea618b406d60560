"""Leases ensure that an attempt has one writer at a time."""

import contextlib
import threading

import pytest

from agent.errors import FencedError, LeaseHeld
from agent.journal import Attempt, Journal, Lease
from tests.agent.journal.workers import WRITES, intend, record

pytestmark = pytest.mark.slow


def test_a_worker_may_replace_its_own_lease(journal: Journal, lease: Lease) -> None:
    """The same worker gets the next epoch, and its earlier lease becomes void."""
    again = journal.acquire("a1", "first", 300)
    assert again.epoch == lease.epoch + 1
    with pytest.raises(FencedError):
        intend(journal, lease, 0)


@pytest.mark.parametrize("write", WRITES)
def test_a_fenced_worker_can_do_nothing(journal: Journal, started: Attempt, write: str) -> None:
    """Under a lease that another worker has replaced, every write fails and leaves no trace."""
    old = journal.acquire("a1", "first", 0.0)
    intend(journal, old, 0, usd=0.1)
    new = journal.acquire("a1", "second", 300)
    before = journal.steps("a1"), journal.account("a1"), journal.active()
    with pytest.raises(
        FencedError, match="a1 is now held by another worker: first held it"
    ) as caught:
        WRITES[write](journal, old)
    assert not caught.value.retryable
    assert (journal.steps("a1"), journal.account("a1"), journal.active()) == before
    assert new.epoch == old.epoch + 1


def test_release_never_frees_the_lease_of_another_worker(journal: Journal, lease: Lease) -> None:
    """A released attempt is free at once. Releasing a void lease does not affect the new holder."""
    journal.release(lease)
    assert journal.active() == set()
    journal.acquire("a1", "second", 300)
    journal.release(lease)
    with pytest.raises(LeaseHeld):
        journal.acquire("a1", "third", 300)


def test_one_of_many_gets_an_expired_lease(journal: Journal, started: Attempt) -> None:
    """If several workers request an expired lease at the same time, exactly one gets it."""
    journal.acquire("a1", "dead", 0.0)
    got: list[Lease] = []
    ready = threading.Barrier(12)

    def race(worker: str) -> None:
        ready.wait()
        with contextlib.suppress(LeaseHeld):
            got.append(journal.acquire("a1", worker, 300))

    threads = [threading.Thread(target=race, args=(f"w{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_the_journal_knows_which_worker_held_an_attempt_when(
    journal: Journal, lease: Lease
) -> None:
    """Each tenure has its worker, its times and its steps. One that was not given back is open."""
    intend(journal, lease, 0)
    record(journal, lease, 0)
    journal.expire("a1", "first")
    second = journal.acquire("a1", "second", 300)
    intend(journal, second, 1)
    journal.release(second)
    one, two = journal.tenures("a1")
    assert (one.worker, one.steps, one.first_ordinal, one.ended_at) == ("first", 1, 1, None)
    assert (two.worker, two.steps, two.first_ordinal) == ("second", 1, 2)
    assert two.ended_at is not None
    assert one.began_at <= two.began_at <= two.ended_at
