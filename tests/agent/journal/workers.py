"""Operations on a journal, in the test's process and in others.

Functions that run in other processes are defined here, so that a new interpreter can import them.
"""

import random
import resource
import threading
from multiprocessing.connection import Connection
from typing import Any

from agent.errors import BudgetExhausted, JournalError
from agent.journal import (
    Attempt,
    FreeStep,
    Journal,
    Lease,
    Limit,
    NewStep,
    Reservation,
    TreeRef,
)

EXPERIMENT = "exp"
DIGEST = "d" * 64


def attempt(attempt_id: str, **changed: Any) -> Attempt:
    """Return an attempt with default values for the fields that are not given."""
    fields = {"experiment": EXPERIMENT, "arm": "mini", "instance_id": "i-1", "repeat": 0}
    return Attempt(**{"attempt_id": attempt_id, "spec": "{}", **fields, **changed})


def budget(usd: float | None = None, calls: int | None = None) -> tuple[Limit, ...]:
    """Return a limit on the whole experiment."""
    return (Limit("experiment", EXPERIMENT, usd, calls),)


def intend(
    journal: Journal,
    lease: Lease,
    seq: int,
    *,
    scope: str = "",
    usd: float | None = None,
    limits: tuple[Limit, ...] = (),
    digest: str = DIGEST,
    request: bytes = b"{}",
) -> None:
    """Begin a step: a model call if it reserves `usd`, otherwise a command."""
    reservation = None if usd is None else Reservation(usd, limits)
    kind = "command" if usd is None else "model"
    journal.intend(lease, NewStep(scope, seq, kind, digest, request), reservation)


def record(
    journal: Journal,
    lease: Lease,
    seq: int,
    *,
    scope: str = "",
    cost: float | None = 0.0,
    result: bytes = b"done",
    tree: TreeRef | None = None,
) -> None:
    """Record the result of a begun step."""
    journal.record(lease, scope, seq, result, cost_usd=cost, duration_s=0.5, tree=tree)


class Meter:
    """The amount that a model server could have charged so far, shared by threads."""

    def __init__(self) -> None:
        self.peak = 0.0
        """The highest amount at stake at any moment, USD."""
        self._at_stake = 0.0
        self._lock = threading.Lock()

    def add(self, usd: float) -> None:
        """Add the worst case of a sent call, or the difference to its cost once it returns."""
        with self._lock:
            self._at_stake += usd
            self.peak = max(self.peak, self._at_stake)


def spend(journal: Journal, name: str, limit_usd: float, tries: int, meter: Meter) -> float:
    """Make calls at random prices under a limit. Return the sum of their costs."""
    chance, paid = random.Random(name), 0.0
    journal.start(attempt(name))
    lease = journal.acquire(name, name, 300)
    for seq in range(tries):
        price = round(chance.uniform(0.01, 0.20), 4)
        try:
            intend(journal, lease, seq, usd=price, limits=budget(limit_usd))
        except BudgetExhausted:
            continue
        meter.add(price)
        cost = round(price * chance.random(), 4)
        meter.add(cost - price)
        record(journal, lease, seq, cost=cost)
        paid += cost
    return paid


WRITES = {
    "record": lambda journal, lease: record(journal, lease, 0, cost=0.01),
    "intend": lambda journal, lease: intend(journal, lease, 1, usd=0.01),
    "append": lambda journal, lease: journal.append(
        lease, FreeStep(NewStep("", 7, "command", "d", b"{}"), b"{}", duration_s=0.0, tree=None)
    ),
    "cancel": lambda journal, lease: journal.cancel(lease, "", 0),
    "renew": lambda journal, lease: journal.renew(lease, 60),
    "check": lambda journal, lease: journal.check(lease),
    "end": lambda journal, lease: journal.end(lease, "{}"),
    "reopen": lambda journal, lease: journal.reopen(lease),
}
"""Every operation that is reserved for the holder of a lease."""


def write_until_full(url: str, attempt_id: str, room: int, pipe: Connection) -> None:
    """Write steps until `room` bytes of disk are full, then lift the limit and write once more."""
    journal = Journal.open(url, patience_s=0.5)
    lease = journal.acquire(attempt_id, "writer", 300)
    written, body = 0, random.Random(0).randbytes(20_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        while True:
            intend(journal, lease, written, usd=0.01)
            record(journal, lease, written, cost=0.01, result=body)
            written += 1
    except JournalError as error:
        pipe.send((written, error.retryable, str(error)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    intend(journal, lease, written, usd=0.01)
    record(journal, lease, written, cost=0.01, result=body)
    pipe.send("went on")
