"""Two programs on one attempt: only one writes and pays, whatever happens to the other."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.experiments.keys import attempt_key
from flows.storage.cleanup import leftovers
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import crashing, pausing
from tests.durability.conftest import CountingServer, NewJournal
from tests.durability.crashing import Setting
from tests.durability.processes import FORKS
from tests.samples import Share
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

CALLS = len(crashing.COMMANDS)
ATTEMPT = attempt_key(crashing.cell("host"))[:32]
PATIENCE_S = 60.0

MOMENTS: list[tuple[str, bool, int]] = [
    # Its heart beats at once when it goes on, and tells it.
    ("after intend 2", True, 1),
    ("during call 2", True, 1),
    ("before run 2", True, 0),
    ("before end 0", True, 0),
    # Its heart is late, and the next write tells it.
    ("before intend 2", False, 0),
    ("before record 2", False, 1),
    ("before run 2", False, 0),
    ("after run 2", False, 0),
    ("before append 2", False, 0),
    ("before end 0", False, 0),
]
"""Where a worker is paused, around the third call and its command; whether its heart beats; and
how many calls it has in flight there: begun, and with an answer that nobody has written down."""


class Worker:
    """A process that works on the attempt."""

    def __init__(self, *arguments: object) -> None:
        """`arguments` are those of `pausing.work` before its pipe."""
        self._result, theirs = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=pausing.work, args=(*arguments, theirs))
        self.process.start()
        theirs.close()

    def is_paused(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def go_on(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> str:
        """`done`, or the name of the error that it ends with."""
        assert self._result.poll(PATIENCE_S), "the worker does not end"
        result: str = self._result.recv()
        self.process.join()
        return result


StartWorker = Callable[..., Worker]


@pytest.fixture
def setting(counting: CountingServer, new_journal: NewJournal, tmp_path: Path) -> Setting:
    """An empty lake and an empty journal."""
    return Setting(tmp_path / "lake", counting.url, new_journal())


@pytest.fixture
def start(setting: Setting) -> Iterator[StartWorker]:
    """Starts a worker, killed at the end of the test if it is still there."""
    workers = []

    def begin(
        stop_at: str | None = None, beats: bool = True, patience_s: float = PATIENCE_S
    ) -> Worker:
        workers.append(Worker(setting, stop_at, beats, patience_s))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.process.kill()
        worker.process.join()


def everything(setting: Setting) -> dict[str, Any]:
    """What the journal and the lake hold of the attempt."""
    lake = Lake.existing(setting.lake)
    journal = open_journal(lake)
    return {
        "steps": journal.steps(ATTEMPT),
        "account": journal.account(ATTEMPT),
        "outcome": journal.outcome(ATTEMPT),
        "rows": {
            table: lake.find(table, ATTEMPT)
            for table in ("attempts", "steps", "llm_calls", "predictions")
        },
    }


def moments() -> Iterator[Any]:
    """Yield every moment in both databases; one in three is in the sample, others in each."""
    for index, moment in enumerate(MOMENTS):
        for shift, database in enumerate(("sqlite", "postgresql")):
            name = f"{moment[0]}-{'beats' if moment[1] else 'late'}-{database}"
            marks = Share((index + shift) % 3, 3).marks
            yield pytest.param(*moment, database, id=name, marks=marks)


@pytest.mark.parametrize(
    ("moment", "beats", "in_flight", "new_journal"), list(moments()), indirect=["new_journal"]
)
def test_a_worker_that_was_paused_too_long_is_fenced(
    moment: str,
    beats: bool,
    in_flight: int,
    setting: Setting,
    start: StartWorker,
    counting: CountingServer,
) -> None:
    """Another finishes its attempt; going on it adds nothing, but what it had in flight."""
    paused = start(stop_at=moment, beats=beats)
    wait_until(paused.is_paused)
    assert start().end() == "done"
    finished = everything(setting)
    assert [row["outcome"] for row in finished["rows"]["attempts"]] == ["submitted"]
    assert finished["account"].calls_credited == CALLS
    assert finished["account"].calls_billed == CALLS + in_flight
    paused.go_on()
    assert paused.end() == "FencedError"
    assert everything(setting) == finished
    assert set(counting.counts) == {("", number) for number in range(CALLS)}
    assert counting.counts.total() <= CALLS + in_flight
    left = asyncio.run(leftovers(Lake.existing(setting.lake)))
    assert [line for line in left if ATTEMPT in line] == []


def test_a_worker_that_lives_keeps_its_attempt(
    setting: Setting, start: StartWorker, counting: CountingServer
) -> None:
    """Another is refused for as long as it tries, and leaves the attempt as it is."""
    counting.may_answer.clear()
    first = start()
    wait_until(lambda: counting.counts.total() == 1)
    before = everything(setting)
    assert start(patience_s=2 * pausing.LEASE_S).end() == "LeaseHeld"
    assert everything(setting) == before
    assert counting.counts.total() == 1
    counting.may_answer.set()
    assert first.end() == "done"
    assert counting.counts == {("", number): 1 for number in range(CALLS)}
    account = everything(setting)["account"]
    assert (account.calls_billed, account.calls_credited) == (CALLS, CALLS)
