"""The journal: every step of every attempt, recorded as it happens."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from agent.errors import JournalError, OtherJournal
from agent.journal import attempts, leases, ledger, records, watching
from agent.journal.blobs import Blobs, Bodies
from agent.journal.database import Database, may_exist, parse_address, reads, writes
from agent.journal.inbox import Inbox
from agent.journal.migrations import journal_id, migrate
from agent.journal.queues import Queue
from agent.journal.retention import Retention
from agent.journal.types import (
    AdoptedStep,
    Attempt,
    EndedStep,
    Lease,
    NewStep,
    RecordedStep,
    Reservation,
    TreeRef,
)
from agent.timings import timings

T = TypeVar("T")
P = ParamSpec("P")


def _read(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate["Journal", P], T]:
    """Return the method of the journal that is this work in a read-only transaction."""

    @functools.wraps(work)
    def run(self: "Journal", /, *args: P.args, **values: P.kwargs) -> T:
        return self.database.read(work, *args, **values)

    return run


def _write(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate["Journal", P], T]:
    """Return the method of the journal that is this work in a transaction that writes."""

    @functools.wraps(work)
    def run(self: "Journal", /, *args: P.args, **values: P.kwargs) -> T:
        return self.database.write(work, *args, **values)

    return run


class Journal:
    """Append-only steps, with their leases and their ledger, in SQLite or PostgreSQL.

    Any number of threads, processes and machines may use one journal. Every method is one
    transaction, durable when it returns. It is retried until the database has been unreachable for
    `Timings.journal_patience_s`, and then raises JournalError. Steps are named by (scope, seq)
    within an attempt. Amounts are in USD.
    """

    def __init__(self, database: Database, blobs: Blobs | None, own_id: str) -> None:
        self.id = own_id
        """Identity of the journal, independent of its location. Created once, with its tables."""
        self.database = database
        self._bodies = Bodies(blobs)
        self.watching = watching.Watching(database, self._bodies)
        """Following attempts while they work."""

    @classmethod
    def open(
        cls,
        url: str,
        blobs: Blobs | None = None,
        *,
        patience_s: float | None = None,
        expected_id: str | None = None,
    ) -> "Journal":
        """Open the journal at `sqlite:///path` or `postgresql://user@host/database`.

        A missing journal is created, unless one with an id is expected. Payloads above 256 kB go to
        `blobs`. The default is a folder next to the file on SQLite, and the database itself on
        PostgreSQL.

        Raises:
            OtherJournal: the journal is not the expected one; nothing was changed.
            JournalError: there is no such database, or a newer release has written it.
        """
        patience_s = timings().journal_patience_s if patience_s is None else patience_s
        address = parse_address(url)
        if expected_id is not None and not may_exist(address):
            raise OtherJournal(None)
        if blobs is None and address.database and address.get_backend_name() == "sqlite":
            blobs = Blobs(Path(address.database).absolute().parent / "blobs")
        database = Database(address, min(patience_s, timings().journal_contact_s))

        def prepare(connection: Connection) -> str:
            if expected_id is not None and (other_id := journal_id(connection)) != expected_id:
                raise OtherJournal(other_id)
            migrate(connection)
            own_id = journal_id(connection)
            assert own_id is not None, "it was just migrated"
            return own_id

        try:
            own_id = database.write(prepare)
        except BaseException:
            database.close()
            raise
        database.patience_s = patience_s
        return cls(database, blobs, own_id)

    @staticmethod
    def id_at(url: str) -> str | None:
        """Return the id of the journal at a URL, or None if there is none yet.

        Creates nothing.

        Raises:
            JournalError: there is no such database.
        """
        address = parse_address(url)
        if not may_exist(address):
            return None
        database = Database(address, timings().journal_contact_s)
        try:
            return database.read(journal_id)
        finally:
            database.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def queue(self, run: str) -> Queue:
        """Return the queue of a run. It is empty until work is added."""
        return Queue(self.database, run)

    def inbox(self, attempt_id: str) -> Inbox:
        """Return the inbox of an attempt. It is empty until a message is sent."""
        return Inbox(self.database, attempt_id)

    @property
    def retention(self) -> Retention:
        """Pruning."""
        return Retention(self.database)

    claim = _write(attempts.claim)
    hand_over = _write(attempts.hand_over)
    leave_sign = _write(attempts.leave_sign)
    has_sign = _read(attempts.has_sign)

    start = _write(attempts.declare)
    attempt = _read(attempts.find)
    find = _read(attempts.find_by_prefix)
    at_instance = _read(attempts.find_at_instance)
    outcome = _read(attempts.outcome)
    pruned_at = _read(attempts.get_pruning_time)
    end = _write(attempts.end)
    reopen = _write(attempts.reopen)
    progress = _read(watching.progress)

    offer = _write(leases.offer)
    renew = _write(leases.renew)
    check = _read(leases.check)
    release = _write(leases.release)
    note_retry = _write(leases.note_retry)
    expire = _write(leases.expire)
    holder = _read(leases.holder)
    holders = _read(leases.holders)
    lapsed = _read(leases.find_lapsed)
    active = _read(leases.active)
    tenures = _read(leases.read_tenures)

    account = _read(ledger.account)
    spent = _read(ledger.spent)
    take_turn = _write(ledger.take_turn)

    @writes
    def fork(
        self, connection: Connection, parent_id: str, child: Attempt, scope: str, seq: int
    ) -> int:
        """Start `child` with the results of all steps that its parent started before a step.

        They are credited to the child and not billed again. Return the number of these steps.

        Raises:
            JournalError: the parent has no such step, or another attempt has the child's id.
        """
        forked = replace(child, parent_id=parent_id, fork_scope=scope, fork_seq=seq)
        if attempts.declare(connection, forked):
            records.copy_before(connection, parent_id, child.attempt_id, scope, seq)
        return records.count_copies(connection, child.attempt_id)

    @writes
    def acquire(self, connection: Connection, attempt_id: str, worker: str, ttl_s: float) -> Lease:
        """Acquire the right to write the attempt, for `ttl_s` seconds unless it is renewed.

        A worker may acquire its own lease again, so worker names must be unique. Calls of earlier
        epochs that have no result are lost. Each is billed at its reservation.

        Raises:
            LeaseHeld: another worker's lease has not expired.
            JournalError: there is no such attempt.
        """
        lease = leases.acquire(connection, attempt_id, worker, ttl_s)
        if attempts.find(connection, attempt_id) is not None:  # other work has leases too
            ledger.forfeit(connection, attempt_id)
            leases.begin_tenure(connection, lease)
        return lease

    @reads
    def steps(self, connection: Connection, attempt_id: str) -> list[RecordedStep]:
        """Return the attempt's steps by scope and seq, including intents without a result."""
        return records.read(connection, attempt_id, self._bodies)

    def intend(
        self,
        lease: Lease,
        step: NewStep,
        reservation: Reservation | None = None,
        *,
        after: Sequence[EndedStep] = (),
    ) -> None:
        """Record that a step is about to happen, and reserve its highest possible cost.

        The intent replaces an intent of an earlier epoch without a result. Before it, record the
        steps that happened `after` the last write, as `append` does.

        Raises:
            BudgetExhausted: a limit does not allow the step; nothing is written.
            BudgetReserved: the same, until calls in flight have settled.
            FencedError: another worker has acquired the attempt.
            JournalError: the step is already recorded, or was started with another request.
        """
        row = {**dict.fromkeys(records.RESULT), **self._new_row(step)}
        ended = [self._row(step) for step in after]

        def work(connection: Connection) -> None:
            ordinals, now = leases.begin_steps(connection, lease, len(ended) + 1)
            records.append(connection, lease, ended, ordinals, now)
            intent = {**row, "ordinal": ordinals[-1], "started_at": now}
            is_new = records.write(connection, lease, intent)
            if is_new and reservation is not None:
                ledger.reserve(connection, lease, step.scope, step.seq, reservation)

        self.database.write(work)

    def record(
        self,
        lease: Lease,
        scope: str,
        seq: int,
        result: bytes,
        *,
        cost_usd: float | None,
        duration_s: float,
        tree: TreeRef | None,
    ) -> None:
        """Record the result of a step, and settle its reservation.

        An unknown cost (None) settles at the reservation and counts as unpriced.

        Raises:
            FencedError: another worker has acquired the attempt.
            JournalError: the step was not started in this epoch, is recorded with another result,
                or has a cost without a reservation.
        """
        row = {
            "scope": scope,
            "seq": seq,
            "result": self._bodies.pack(result),
            "cost_usd": cost_usd,
            "duration_s": duration_s,
            "tree": None if tree is None else str(tree),
        }

        def work(connection: Connection) -> None:
            leases.check(connection, lease)
            nusd = ledger.settle(connection, lease, scope, seq, cost_usd)
            is_new = records.finish(connection, lease, {**row, "settled_nusd": nusd})
            if is_new and nusd is None and cost_usd:
                raise JournalError(
                    f"a step of {lease.attempt_id} cost ${cost_usd} and reserved nothing",
                    retryable=False,
                )

        self.database.write(work)

    def append(self, lease: Lease, *steps: EndedStep) -> None:
        """Record steps that are over: `intend` and `record` in one.

        Raises:
            FencedError: another worker has acquired the attempt.
            JournalError: one of them was started or recorded before, or the attempt that it is
                adopted from has no such step any more.
        """
        ended = [self._row(step) for step in steps]

        def work(connection: Connection) -> None:
            ordinals, now = leases.begin_steps(connection, lease, len(ended))
            records.append(connection, lease, ended, ordinals, now)

        self.database.write(work)

    @writes
    def resend(
        self, connection: Connection, lease: Lease, scope: str, seq: int, reservation: Reservation
    ) -> None:
        """Reserve the cost of a call whose first request was lost. Raise the errors of `intend`."""
        leases.check(connection, lease)
        ledger.lose(connection, lease, scope, seq)
        ledger.reserve(connection, lease, scope, seq, reservation)

    @writes
    def cancel(self, connection: Connection, lease: Lease, scope: str, seq: int) -> None:
        """Cancel an intent whose call cost nothing, and its reservation.

        Raises:
            FencedError: another worker has acquired the attempt.
        """
        leases.check(connection, lease)
        ledger.withdraw(connection, lease, scope, seq)
        records.remove_intent(connection, lease, scope, seq)

    def _row(self, step: EndedStep) -> dict[str, Any]:
        """Return the columns of a step that is over. An adopted one has its `parent_id`."""
        result = None if step.result is None else self._bodies.pack(step.result)
        if isinstance(step, AdoptedStep):
            return {**_place(step), "parent_id": step.parent_id, "result": result}
        return {
            **self._new_row(step.step),
            "result": result,
            "cost_usd": 0.0,
            "settled_nusd": None,
            "duration_s": step.duration_s,
            "tree": None if step.tree is None else str(step.tree),
        }

    def _new_row(self, step: NewStep) -> dict[str, Any]:
        """Return the columns of a step without its result."""
        return {
            **_place(step),
            "kind": step.kind,
            "digest": step.digest,
            "request": self._bodies.pack(step.request),
            "bench": step.bench,
        }


def _place(step: NewStep | AdoptedStep) -> dict[str, Any]:
    began_at = step.inputs.began_at
    return {
        "scope": step.scope,
        "seq": step.seq,
        "began_at_tree": None if began_at is None else str(began_at),
        "inputs": step.inputs.digest,
    }
