"""Work that several workers take from one queue, on SQLite and PostgreSQL."""

import multiprocessing
from multiprocessing.connection import Connection

import pytest

from agent.journal import Ended, Journal, Lease, Queue, Taken, queues
from agent.journal.holding import worker

SPAWN = multiprocessing.get_context("spawn")
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
    """Everything that a worker can take, in the order in which it gets it."""
    taken = []
    while found := queue.take(holder, start):
        taken.append(found.name)
    return taken


def test_each_piece_is_taken_once_from_an_offset_on(queue: Queue) -> None:
    """A worker goes on at the beginning, and takes nothing that another has."""
    assert queue.take("one") == Taken("w0", was_lost=False)
    assert names(queue, "other", 3) == ["w3", "w4", "w5", "w1", "w2"]
    assert queue.take("one") is None
    assert queue.left() == 6


def test_what_is_added_twice_is_there_once(journal: Journal, queue: Queue) -> None:
    """A second run of the same work finds it as it is; another run has its own."""
    queue.take("one")
    queue.end("w0", "one", "done", "resolved")
    queue.add(NAMES)
    assert queue.open() == {name: place for place, name in enumerate(NAMES) if place}
    assert journal.queue("another").open() == {}


def test_what_has_ended_is_told_with_its_result(queue: Queue) -> None:
    """It is not taken again; the last time that was told finds what came later."""
    queue.take("one")
    queue.end("w0", "one", "done", "resolved")
    [first] = queue.ended()
    assert first == Ended("w0", "done", "resolved", first.at)
    queue.take("one")
    queue.end("w1", "one", "budget", "stopped: all is spent")
    assert {each.name for each in queue.ended(first.at)} == {"w0", "w1"}
    assert queue.ended(first.at + 2 * queues.LATE_S) == []
    assert list(queue.open()) == NAMES[2:]


def test_what_is_given_back_is_free_at_once(queue: Queue) -> None:
    """One piece, or all that a worker has; that is no loss."""
    assert names(queue, "one") == NAMES
    queue.give_back("w4", "other")
    assert queue.take("other") is None
    queue.give_back("w4", "one")
    assert queue.take("other") == Taken("w4", was_lost=False)
    queue.give_back_all("one")
    assert names(queue, "other") == [name for name in NAMES if name != "w4"]


def test_what_a_dead_worker_had_is_free_when_its_lease_has_expired(
    journal: Journal, queue: Queue
) -> None:
    """The next one knows that it was lost, and a worker that comes back ends nothing."""
    queue.take("one")
    assert queue.holders() == {"one": "one/1-1"}
    journal.expire("one", "one/1-1")
    assert queue.take("other") == Taken("w0", was_lost=True)
    queue.end("w0", "one", "done", "resolved")
    queue.give_back("w0", "one")
    assert queue.left() == 6
    assert queue.holders() == {"other": "other/1-1"}


def test_old_queues_are_removed(
    journal: Journal, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next one that is filled."""
    monkeypatch.setattr(queues, "KEPT_S", -1.0)
    journal.queue("next").add(["x"])
    assert queue.open() == {}
    assert journal.queue("next").open() == {"x": 0}


def take_all(url: str, name: str, start: int, pipe: Connection) -> None:
    """Take and end work until there is none."""
    journal = Journal.open(url)
    journal.offer(name)
    journal.acquire(name, worker(), 300)
    queue, mine = journal.queue("run"), []
    pipe.send("ready")
    pipe.recv()
    while taken := queue.take(name, start):
        mine.append(taken.name)
        queue.end(taken.name, name, "done", name)
    pipe.send(mine)


def test_processes_share_the_work(url: str, journal: Journal) -> None:
    """Nothing is taken twice and nothing is left, however many take at the same moment."""
    many = [f"w{number}" for number in range(90)]
    journal.queue("run").add(many)
    ends = []
    for number in range(3):
        here, there = SPAWN.Pipe()
        SPAWN.Process(target=take_all, args=(url, f"p{number}", 30 * number, there)).start()
        ends.append(here)
    for end in ends:
        assert end.recv() == "ready"
    for end in ends:
        end.send("go")
    shares = [end.recv() for end in ends]
    assert sorted(name for share in shares for name in share) == sorted(many)
