"""Work that several workers take from one queue, on SQLite and PostgreSQL."""

import pytest

from agent.journal import Ended, Journal, Lease, Queue, Taken, queues

NAMES = [f"w{number}" for number in range(6)]


def holder(journal: Journal, name: str, ttl_s: float = 300) -> Lease:
    """The lease of a worker that takes work."""
    journal.offer(name)
    return journal.acquire(name, f"{name}/1-1", ttl_s)


@pytest.fixture
def queue(journal: Journal) -> Queue:
    """Six pieces of work and two workers."""
    made = journal.queue("run")
    made.add(NAMES)
    for name in ("one", "other"):
        holder(journal, name)
    return made


def names(queue: Queue, holder: str, start: int = 0) -> list[str]:
    """Take all that a worker can take. Return the names in order."""
    taken = []
    while found := queue.take(holder, start):
        taken.append(found.name)
    return taken


def test_work_is_added_once(journal: Journal, queue: Queue) -> None:
    """Adding it again keeps its state, and another run has its own queue."""
    queue.take("one")
    queue.end("w0", "one", "done", "resolved")
    queue.add(NAMES)
    assert queue.open() == {name: place for place, name in enumerate(NAMES) if place}
    assert journal.queue("another").open() == {}


def test_ended_work_has_a_result(queue: Queue) -> None:
    """It is not taken again, and the time of the last end finds later ends."""
    queue.take("one")
    queue.end("w0", "one", "done", "resolved")
    [first] = queue.list_ended()
    assert first == Ended("w0", "done", "resolved", first.at)
    queue.take("one")
    queue.end("w1", "one", "budget", "stopped: all is spent")
    assert {each.name for each in queue.list_ended(first.at)} == {"w0", "w1"}
    assert queue.list_ended(first.at + 2 * queues.LATE_S) == []
    assert list(queue.open()) == NAMES[2:]


def test_work_that_is_given_back_is_free(queue: Queue) -> None:
    """One piece or all work of a worker. It does not count as lost."""
    assert names(queue, "one") == NAMES
    queue.give_back("w4", "other")
    assert queue.take("other") is None
    queue.give_back("w4", "one")
    assert queue.take("other") == Taken("w4")
    queue.give_back_all("one")
    assert names(queue, "other") == [name for name in NAMES if name != "w4"]


def test_groups_that_nobody_has_begun_are_withdrawn(queue: Queue) -> None:
    """A group of which a piece is held or has ended stays, and so does one that is not there."""
    queue.take("one")
    queue.take("one")
    queue.end("w1", "one", "done", "resolved")
    groups = [["w0", "w3"], ["w1", "w2"], ["w4", "w5"], ["w6"]]
    assert queue.withdraw(groups, "not_needed") == ["w4", "w5"]
    assert list(queue.open()) == ["w0", "w2", "w3"]
    assert {each.name: each.ended_as for each in queue.list_ended()} == {
        "w1": "done",
        "w4": "not_needed",
        "w5": "not_needed",
    }
    assert names(queue, "other") == ["w2", "w3"]
    assert queue.withdraw([], "not_needed") == []


def test_work_of_a_dead_worker_is_free_when_its_lease_has_expired(
    journal: Journal, queue: Queue
) -> None:
    """The next holder knows that it was lost, and the old holder can end it only for good."""
    queue.take("one")
    assert queue.holders() == {"one": "one/1-1"}
    journal.expire("one", "one/1-1")
    assert queue.take("other") == Taken("w0", losses=1)
    queue.end("w0", "one", "budget", "stopped")
    queue.give_back("w0", "one")
    assert queue.count_unended() == 6
    assert queue.holders() == {"other": "other/1-1"}
    queue.end("w0", "one", "done", "resolved", is_final=True)
    queue.end("w0", "other", "budget", "stopped")
    [ended] = queue.list_ended()
    assert ended == Ended("w0", "done", "resolved", ended.at)


def test_work_that_was_lost_is_left_to_others(journal: Journal, queue: Queue) -> None:
    """Each death of a holder counts. Work that is given back keeps its count."""
    for losses, name in enumerate(["one", "other"]):
        assert queue.take(name) == Taken("w0", losses)
        journal.expire(name, f"{name}/1-1")
    holder(journal, "third")
    assert queue.take("third", fresh=True) == Taken("w1")
    assert queue.take("third") == Taken("w0", losses=2)
    queue.give_back("w0", "third")
    assert queue.take("third", fresh=True) == Taken("w2")
    assert queue.take("third") == Taken("w0", losses=2)


def test_work_of_a_worker_whose_lease_has_lapsed_is_not_lost_to_itself(
    journal: Journal, queue: Queue
) -> None:
    """A worker that was suspended renews its lease soon, and still has its work."""
    assert queue.take("one") == Taken("w0")
    journal.expire("one", "one/1-1")
    assert queue.take("one") == Taken("w1")
    assert queue.take("other") == Taken("w0", losses=1)


def test_work_of_a_silent_worker_is_claimable_before_it_is_free(
    journal: Journal, queue: Queue
) -> None:
    """It can be taken only when the lease has expired."""
    holder(journal, "silent", 60)
    assert names(queue, "one")[0] == "w0"
    queue.give_back("w0", "one")
    assert queue.claimable(30) == 1
    assert queue.take("silent") is not None
    assert (queue.claimable(30), queue.claimable(90)) == (0, 1)
    assert queue.take("other") is None
    assert queue.count_unended() == 6
