"""Two workers on one attempt: at any time, only one of them writes and pays."""

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
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

CALLS = len(crashing.COMMANDS)
ATTEMPT = attempt_key(crashing.cell("host"))[:32]
PATIENCE_S = 60.0

MOMENTS: list[tuple[str, bool, int]] = [
    # After it resumes, an immediate heartbeat tells the worker that its lease is lost.
    ("after intend 2", True, 1),
    ("during call 2", True, 1),
    ("before run 2", True, 0),
    ("before end 0", True, 0),
    # The heartbeat is late; the next write tells the worker that its lease is lost.
    ("before intend 2", False, 0),
    ("before record 2", False, 1),
    ("before run 2", False, 0),
    ("after run 2", False, 0),
    ("before append 0", False, 0),
    ("before end 0", False, 0),
]
"""Points around the third call and its command at which a worker is paused, whether it sends
heartbeats, and the number of its calls in flight there: begun, but without a recorded answer."""


class Worker:
    """A process that works on the attempt."""

    def __init__(self, *arguments: object) -> None:
        """Start the process; `arguments` are those of `pausing.work` before its pipe."""
        self._result, theirs = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=pausing.work, args=(*arguments, theirs))
        self.process.start()
        theirs.close()

    def is_paused(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> str:
        """Wait for the end of the worker and return `done` or the name of its error."""
        assert self._result.poll(PATIENCE_S), "the worker does not end"
        result: str = self._result.recv()
        self.process.join()
        return result


StartWorker = Callable[..., Worker]


@pytest.fixture
def setting(counting: CountingServer, new_journal: NewJournal, tmp_path: Path) -> Setting:
    """Return the settings of an empty lake and an empty journal."""
    return Setting(tmp_path / "lake", counting.url, new_journal())


@pytest.fixture
def start(setting: Setting) -> Iterator[StartWorker]:
    """Yield a function that starts a worker; workers are killed at the end of the test."""
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
    """Return everything that the journal and the lake store about the attempt."""
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


@pytest.mark.parametrize(("moment", "beats", "in_flight"), MOMENTS)
def test_a_worker_that_was_paused_too_long_is_fenced(
    moment: str,
    beats: bool,
    in_flight: int,
    setting: Setting,
    start: StartWorker,
    counting: CountingServer,
) -> None:
    """A paused worker that lost its lease records nothing more after another finished the attempt.

    Only its calls in flight are billed in addition.
    """
    paused = start(stop_at=moment, beats=beats)
    wait_until(paused.is_paused)
    assert start().end() == "done"
    finished = everything(setting)
    assert [row["outcome"] for row in finished["rows"]["attempts"]] == ["submitted"]
    assert finished["account"].calls_credited == CALLS
    assert finished["account"].calls_billed == CALLS + in_flight
    paused.resume()
    assert paused.end() == "FencedError"
    assert everything(setting) == finished
    assert set(counting.counts) == {("", number) for number in range(CALLS)}
    assert counting.counts.total() <= CALLS + in_flight
    left = asyncio.run(leftovers(Lake.existing(setting.lake)))
    assert [line for line in left if ATTEMPT in line] == []


def test_a_worker_that_lives_keeps_its_attempt(
    setting: Setting, start: StartWorker, counting: CountingServer
) -> None:
    """As long as a worker is alive, another one cannot take its attempt and changes nothing."""
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
