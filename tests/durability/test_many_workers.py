"""Sixteen workers share a budget of half a dollar, and the server never charges more."""

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from agent.journal import Limit
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import spending
from tests.durability.conftest import JsonServer, NewJournal
from tests.durability.crashing import Setting
from tests.durability.processes import FORKS

pytestmark = [pytest.mark.slow, pytest.mark.full]

WORKERS, CELLS_EACH = 16, 2
KILLED_WHILE_PAYING = {1, 3}
"""Calls, counted from 1, whose senders the server kills instead of answering."""
KILLED_ANYWHERE = 4
LATENCY_S = 0.2
LIMIT = Limit("experiment", "spend", spending.BUDGET_USD, None)


class Till(JsonServer):
    """A server that charges for every call, even if its caller is killed. Amounts are in USD."""

    def __init__(self) -> None:
        self.charged = 0.0
        self.most_at_stake = 0.0
        """Maximum over time of the amount charged plus the ceilings of the calls in flight."""
        self.calls = Counter[tuple[int, int]]()
        """Number of requests by seed of the attempt and number of the call."""
        self._at_stake = 0.0
        self._lock = threading.Lock()
        self._arrivals = itertools.count(1)
        self._together = threading.Barrier(WORKERS, timeout=60)
        super().__init__(self._answer)

    def _answer(self, call: dict[str, int]) -> dict[str, float]:
        if "ready" in call:
            self._together.wait()
            return {}
        place = call["seed"], call["number"]
        usd, ceiling_usd = spending.price(*place)
        with self._lock:
            arrival = next(self._arrivals)
            self.calls[place] += 1
            self._at_stake += ceiling_usd
            self.most_at_stake = max(self.most_at_stake, self._at_stake)
        time.sleep(LATENCY_S)  # so that many calls are in flight at the same time
        if arrival in KILLED_WHILE_PAYING:
            os.kill(call["pid"], signal.SIGKILL)
        with self._lock:
            self.charged += usd
            self._at_stake += usd - ceiling_usd
        return {"usd": usd}


@pytest.fixture
def till() -> Iterator[Till]:
    server = Till()
    yield server
    server.close()


def start(setting: Setting) -> list[BaseProcess]:
    """Start all workers, each with its own cells."""
    cells = spending.cells(WORKERS * CELLS_EACH)
    workers = []
    for number in range(WORKERS):
        own = cells[number::WORKERS]
        worker = FORKS.Process(target=spending.work, args=(setting, own))
        worker.start()
        workers.append(worker)
    return workers


def exit_codes(workers: list[BaseProcess]) -> Counter[int | None]:
    """Return the exit codes of the workers; None for one that does not end."""
    for worker in workers:
        worker.join(timeout=120)
        worker.kill()
    return Counter(worker.exitcode for worker in workers)


def test_no_budget_is_exceeded_by_sixteen_workers(
    new_journal: NewJournal, till: Till, tmp_path: Path
) -> None:
    """Workers never exceed a shared budget, even if some are killed and all are restarted."""
    setting = Setting(tmp_path / "lake", till.url, new_journal())
    workers = start(setting)
    while till.calls.total() < 2 and any(worker.is_alive() for worker in workers):
        time.sleep(0.01)
    for worker in random.Random(7).sample(workers, KILLED_ANYWHERE):
        worker.kill()
    ended = exit_codes(workers)
    killed = ended.pop(-signal.SIGKILL)
    assert len(KILLED_WHILE_PAYING) <= killed <= len(KILLED_WHILE_PAYING) + KILLED_ANYWHERE
    assert set(ended) == {0}
    assert exit_codes(start(setting)) == {0: WORKERS}

    journal = open_journal(Lake.existing(setting.lake))
    spent_usd, calls = journal.spent(LIMIT)
    assert till.most_at_stake <= spending.BUDGET_USD + 1e-9
    assert till.charged <= spent_usd + 1e-9
    # The last call was refused with no other call in flight; its ceiling limits what is left.
    assert spending.BUDGET_USD - spending.DEAREST_USD < spent_usd <= spending.BUDGET_USD
    accounts = [journal.account(one.attempt_id) for one in journal.find("")]
    assert len(accounts) == WORKERS * CELLS_EACH
    assert sum(account.billed_usd for account in accounts) == pytest.approx(spent_usd)
    assert sum(account.calls_billed for account in accounts) == calls
    # No worker repeats a call whose answer was recorded.
    assert till.calls.total() - len(till.calls) <= killed
    assert till.calls.total() <= calls <= till.calls.total() + killed
