"""Workers, leases, ledger and queue in virtual time, in every order that a search can find.

A rule is one transaction of one worker, a paid call, a death, or a pause of all. Transactions are
atomic, so an order of rules is an order of what the database sees.
"""

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from agent.errors import BudgetExhausted, FencedError, JournalError, LeaseHeld
from agent.journal import Attempt, Journal, Lease, Limit, NewStep, Reservation, leases, ledger
from agent.journal import database as databases
from agent.journal.queues import Queue, Taken

WORKERS, ATTEMPTS, CALLS = 3, 2, 4
TTL_S = 30.0
RESERVED_USD, COST_USD = 0.25, 0.125
BUDGET_USD = 1.5
"""Six reservations for eight calls, so that calls wait and are refused."""

_numbers = itertools.count()
_now = SimpleNamespace(s=1e9)


@dataclass
class Worker:
    """One process. A death forgets everything."""

    name: str
    lease: Lease | None = None
    seq: int = 0
    """Its next call."""
    is_intended: bool = False
    is_answered: bool = False
    shard: Lease | None = None
    """The lease in whose name it takes work."""
    work: Taken | None = None


@dataclass
class World:
    """The truth, from outside."""

    charged_usd: Counter[str] = field(default_factory=Counter)
    sent: Counter[tuple[str, int]] = field(default_factory=Counter)
    recorded: dict[tuple[str, int], bytes] = field(default_factory=dict)
    losses: set[tuple[str, int, int]] = field(default_factory=set)
    """Calls, with the epoch of a worker that died or lost its lease between request and record."""
    holders: dict[str, str] = field(default_factory=dict)
    """The worker that took each piece of work last."""
    ended: Counter[str] = field(default_factory=Counter)


class Workers(RuleBasedStateMachine):
    """Workers that run attempts of paid calls."""

    journal: Journal

    @initialize()
    def begin(self) -> None:
        self.number, self.world = next(_numbers), World()
        self.experiment = f"run-{self.number}"
        self.names = [f"{self.experiment}-{n}" for n in range(ATTEMPTS)]
        for name in self.names:
            self.journal.start(Attempt(name, self.experiment, "arm", "task", 0, "{}"))
        self.workers = [Worker(f"{self.experiment}-w{n}") for n in range(WORKERS)]
        self.queue = self.journal.queue(self.experiment)
        self.queue.add(self.names)
        self.limit = Limit("experiment", self.experiment, BUDGET_USD, None)

    @rule(n=st.integers(0, WORKERS - 1), at=st.integers(0, ATTEMPTS - 1))
    def acquire(self, n: int, at: int) -> None:
        worker, name = self.workers[n], self.names[at]
        if worker.lease:
            return
        with suppress(LeaseHeld):
            lease = self.journal.acquire(name, worker.name, TTL_S)
            for other in self.workers:  # even if it has not noticed yet
                if other.lease and other.lease.attempt_id == name:
                    self._lose(other)
            steps = self.journal.steps(name)
            done = [step.seq for step in steps if step.result is not None]
            worker.lease, worker.seq = lease, len(done)
            worker.is_intended = worker.is_answered = False

    @rule(n=st.integers(0, WORKERS - 1))
    def intend(self, n: int) -> None:
        worker = self.workers[n]
        if not worker.lease or worker.is_intended or worker.seq == CALLS:
            return
        reservation = Reservation(RESERVED_USD, (self.limit,))
        with suppress(BudgetExhausted), self._fencing(worker):
            step = NewStep("main", worker.seq, "model", "digest", b"request")
            self.journal.intend(worker.lease, step, reservation)
            worker.is_intended = True

    @rule(n=st.integers(0, WORKERS - 1))
    def call(self, n: int) -> None:
        """The provider answers, and charges."""
        worker = self.workers[n]
        if worker.lease and worker.is_intended and not worker.is_answered:
            call = (worker.lease.attempt_id, worker.seq)
            assert call not in self.world.recorded, f"{call} is recorded, and is bought again"
            self.world.sent[call] += 1
            self.world.charged_usd[worker.lease.attempt_id] += COST_USD
            worker.is_answered = True

    @rule(n=st.integers(0, WORKERS - 1))
    def refuse(self, n: int) -> None:
        """The provider refuses a call, which costs nothing."""
        worker = self.workers[n]
        if worker.lease and worker.is_intended and not worker.is_answered:
            with self._fencing(worker):
                self.journal.cancel(worker.lease, "main", worker.seq)
                worker.is_intended = False

    @rule(n=st.integers(0, WORKERS - 1))
    def record(self, n: int) -> None:
        worker = self.workers[n]
        if worker.lease and worker.is_answered:
            name, seq, result = worker.lease.attempt_id, worker.seq, worker.name.encode()
            with self._fencing(worker):
                self.journal.record(
                    worker.lease, "main", seq, result, cost_usd=COST_USD, duration_s=1.0, tree=None
                )
                assert (name, seq) not in self.world.recorded, "two results of one call"
                self.world.recorded[name, seq] = result
                worker.seq, worker.is_intended, worker.is_answered = seq + 1, False, False

    @rule(n=st.integers(0, WORKERS - 1))
    def renew(self, n: int) -> None:
        worker = self.workers[n]
        if worker.lease:
            with self._fencing(worker):
                self.journal.renew(worker.lease, TTL_S)
        if worker.shard:
            with suppress(FencedError):
                self.journal.renew(worker.shard, TTL_S)

    @rule(n=st.integers(0, WORKERS - 1))
    def release(self, n: int) -> None:
        worker = self.workers[n]
        if worker.lease and not worker.is_intended:
            self.journal.release(worker.lease)
            worker.lease = None

    @rule(n=st.integers(0, WORKERS - 1))
    def die(self, n: int) -> None:
        self._lose(self.workers[n])
        self.workers[n] = Worker(f"{self.workers[n].name}+")

    @rule(seconds=st.sampled_from([1.0, TTL_S - 1, TTL_S + 1]))
    def wait(self, seconds: float) -> None:
        _now.s += seconds

    @rule(n=st.integers(0, WORKERS - 1))
    def take(self, n: int) -> None:
        worker = self.workers[n]
        if worker.shard is None:
            self.journal.offer(f"{worker.name}-shard")
            worker.shard = self.journal.acquire(f"{worker.name}-shard", worker.name, TTL_S)
        if worker.work is None:
            worker.work = self.queue.take(worker.shard.attempt_id)
            if worker.work:
                assert not self.world.ended[worker.work.name], "ended work is taken"
                last = self.world.holders.get(worker.work.name)
                shards = {other.name: other.shard for other in self.workers if other.shard}
                if last in shards and last != worker.name:
                    is_live = shards[last].attempt_id in self.journal.active()
                    assert not is_live, "work is taken from a live worker"
                self.world.holders[worker.work.name] = worker.name

    @rule(n=st.integers(0, WORKERS - 1))
    def end(self, n: int) -> None:
        worker = self.workers[n]
        if worker.work and worker.shard:
            self.queue.end(worker.work.name, worker.shard.attempt_id, "done", worker.name)
            ended = {one.name: one.result for one in self.queue.list_ended()}
            if ended.get(worker.work.name) == worker.name:
                assert self.world.holders[worker.work.name] == worker.name, "work of another"
                self.world.ended[worker.work.name] += 1
            worker.work = None

    @invariant()
    def the_ledger_is_true(self) -> None:
        accounts = {name: self.journal.account(name) for name in self.names}
        for name, account in accounts.items():
            billed_usd, charged_usd = account.billed_usd or 0.0, self.world.charged_usd[name]
            assert charged_usd <= billed_usd, f"{name} is charged more than it is billed"
        billed = sum(account.billed_usd or 0.0 for account in accounts.values())
        assert billed <= BUDGET_USD, "the budget is exceeded"
        spent, calls = self.journal.spent(self.limit)
        assert (spent, calls) == (billed, sum(one.calls_billed for one in accounts.values()))
        assert billed <= self._bound_bill(), "a reservation was not returned"

    def teardown(self) -> None:
        """Expect that every result is the first one that was recorded."""
        for name in self.names:
            found = {(name, s.seq): s.result for s in self.journal.steps(name) if s.result}
            assert found == {k: v for k, v in self.world.recorded.items() if k[0] == name}

    @invariant()
    def work_ends_once(self) -> None:
        assert all(times == 1 for times in self.world.ended.values())

    @invariant()
    def only_lost_calls_are_bought_again(self) -> None:
        losses = Counter((name, seq) for name, seq, _ in self.world.losses)
        for call, times in self.world.sent.items():
            assert times <= 1 + losses[call]

    def _bound_bill(self) -> float:
        """Return the most that can be billed: recorded calls, losses, and calls in flight."""
        flying = {self._locate(worker) for worker in self.workers if worker.is_intended}
        return len(self.world.recorded) * COST_USD + len(flying | self.world.losses) * RESERVED_USD

    @contextmanager
    def _fencing(self, worker: Worker) -> Iterator[None]:
        """Let a worker that lost its lease give up."""
        try:
            yield
        except FencedError:
            self._lose(worker)
            worker.lease, worker.is_intended, worker.is_answered = None, False, False

    def _lose(self, worker: Worker) -> None:
        if worker.is_intended:
            self.world.losses.add(self._locate(worker))

    def _locate(self, worker: Worker) -> tuple[str, int, int]:
        """Return the call of a worker, with the epoch of its lease."""
        assert worker.lease
        return worker.lease.attempt_id, worker.seq, worker.lease.epoch


@pytest.fixture(scope="module", autouse=True)
def journal() -> Iterator[None]:
    """Open a journal in memory, whose clock the simulation moves."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        clock = SimpleNamespace(**vars(databases.time) | {"time": lambda: _now.s})
        with patch.object(databases, "time", clock):
            Workers.journal = Journal.open(f"sqlite:///{Path(folder) / 'journal.sqlite'}")
            yield
            Workers.journal.close()


def search(examples: int, phases: tuple[Phase, ...]) -> None:
    """Search for a counter-example."""
    run_state_machine_as_test(
        Workers,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            phases=phases,
            suppress_health_check=[*HealthCheck],
        ),
    )


def test_no_order_breaks_a_promise() -> None:
    """No call on record is bought again, no budget exceeded, no result replaced, no work done
    twice, and every reservation is settled, returned or lost with its worker."""
    search(int(os.environ.get("DURABENCH_SIMULATIONS", "200")), (Phase.generate, Phase.shrink))


def _do_nothing(*arguments: object) -> None:
    """The planted fault of a check of the lease, or of a withdrawal, that is missing."""


_end = Queue.end


def _end_anyway(queue: Queue, *arguments: str) -> None:
    """The planted fault of a row that a worker writes although another one has the work."""
    _end(queue, *arguments, is_final=True)


def test_a_missing_epoch_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker cannot record a call that the next holder of its lease has taken over."""
    monkeypatch.setattr(leases, "check", _do_nothing)
    workers = Workers()
    workers.begin()
    workers.acquire(n=0, at=0)
    workers.intend(n=0)
    workers.call(n=0)
    workers.wait(seconds=TTL_S + 1)
    workers.acquire(n=1, at=0)
    with pytest.raises(JournalError, match="reserved nothing"):
        workers.record(n=0)


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (ledger, "withdraw", _do_nothing),
        (Queue, "end", _end_anyway),
    ],
    ids=["reservation not returned", "unfenced row"],
)
def test_planted_faults_are_found(
    owner: object, name: str, fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search finds both faults."""
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        search(3000, (Phase.generate,))
