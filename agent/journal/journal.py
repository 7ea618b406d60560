"""The journal: every step of every attempt, recorded as it happens."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection

from agent.errors import JournalError, OtherJournal
from agent.journal import (
    addresses,
    attempts,
    leases,
    ledger,
    progress,
    rates,
    records,
    tenures,
    ties,
)
from agent.journal.blobs import Blobs
from agent.journal.bodies import Bodies
from agent.journal.database import Database
from agent.journal.inbox import Inbox
from agent.journal.migrations import journal_id, migrate
from agent.journal.queues import Queue
from agent.journal.retention import Retention
from agent.journal.types import (
    UNKNOWN_INPUTS,
    Account,
    AdoptedStep,
    Attempt,
    Claim,
    EndedStep,
    FreeStep,
    Inputs,
    Lease,
    Limit,
    Progress,
    RecordedStep,
    Reservation,
    Tenure,
    TreeRef,
)
from agent.journal.watching import Watching
from agent.timings import timings


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
        self.retention = Retention(database)
        """Pruning."""
        self._database = database
        self._bodies = Bodies(blobs)
        self.watching = Watching(database, self._bodies)
        """Following attempts while they work."""
        self._counted_in: dict[str, ledger.Names] = {}

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
        `blobs`. The default is a folder beside the file on SQLite, and the database itself on
        PostgreSQL.

        Raises:
            OtherJournal: the journal is not the expected one; nothing was changed.
            JournalError: there is no such database, or a newer release has written it.
        """
        patience_s = timings().journal_patience_s if patience_s is None else patience_s
        address = addresses.parse(url)
        if expected_id is not None and not addresses.may_exist(address):
            raise OtherJournal(None)
        if blobs is None and address.database and address.get_backend_name() == "sqlite":
            blobs = Blobs(Path(address.database).absolute().parent / "blobs")
        database = _connected(address, patience_s)

        def prepare(connection: Connection) -> str:
            if expected_id is not None and (found := journal_id(connection)) != expected_id:
                raise OtherJournal(found)
            migrate(connection)
            own_id = journal_id(connection)
            assert own_id is not None, "it was just migrated"
            return own_id

        try:
            own_id = database.write(prepare, min(patience_s, timings().journal_contact_s))
        except BaseException:
            database.close()
            raise
        return cls(database, blobs, own_id)

    @staticmethod
    def id_at(url: str) -> str | None:
        """Return the id of the journal at a URL, or None if there is no journal or no id yet.

        Creates nothing.

        Raises:
            JournalError: there is no such database.
        """
        address = addresses.parse(url)
        if not addresses.may_exist(address):
            return None
        database = _connected(address, timings().journal_contact_s)
        try:
            return database.read(journal_id)
        finally:
            database.close()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def claim(self, experiment: str, wanted: Claim) -> Claim:
        """Claim an experiment for a lake, unless one has it. Return the claim that holds."""
        return self._database.write(lambda connection: ties.claim(connection, experiment, wanted))

    def hand_over(self, to: Claim) -> int:
        """Assign all experiments to one lake. Return how many belonged to another."""
        return self._database.write(lambda connection: ties.hand_over(connection, to))

    def leave_sign(self, sign: str) -> None:
        """Record a sign that identifies this journal, but not its copies."""
        self._database.write(lambda connection: ties.leave_sign(connection, sign))

    def has_sign(self, sign: str) -> bool:
        """Return True if a sign was recorded in this journal."""
        return self._database.read(lambda connection: ties.has_sign(connection, sign))

    def queue(self, run: str) -> Queue:
        """Return the queue of a run. It is empty until work is added."""
        return Queue(self._database, run)

    def inbox(self, attempt_id: str) -> Inbox:
        """Return the inbox of an attempt. It is empty until a message is sent."""
        return Inbox(self._database, attempt_id)

    def start(self, attempt: Attempt) -> None:
        """Add an attempt to the journal, unless it exists.

        Raises:
            JournalError: another attempt has the same id.
        """
        self._database.write(lambda connection: attempts.declare(connection, attempt))

    def attempt(self, attempt_id: str) -> Attempt | None:
        """Return the attempt with that id, or None."""
        return self._database.read(lambda connection: attempts.find(connection, attempt_id))

    def find(self, prefix: str) -> list[Attempt]:
        """Return the attempts whose id starts with a prefix, by id."""
        return self._database.read(lambda connection: attempts.with_prefix(connection, prefix))

    def at_instance(self, experiment: str, instance_id: str) -> list[Attempt]:
        """Return the attempts of an experiment at an instance, by id, except for pruned ones."""
        return self._database.read(
            lambda connection: attempts.at_instance(connection, experiment, instance_id)
        )

    def progress(self, experiment: str) -> list[Progress]:
        """Return the progress of the attempts of an experiment, by id."""
        return self._database.read(
            lambda connection: progress.of_experiment(connection, experiment)
        )

    def outcome(self, attempt_id: str) -> str | None:
        """Return the outcome that `end` was given, or None while the attempt is open."""
        return self._database.read(lambda connection: attempts.outcome(connection, attempt_id))

    def fork(self, parent_id: str, child: Attempt, scope: str, seq: int) -> int:
        """Start `child` with the results of all steps that the parent began before the given step.

        They are credited to the child and not billed again. Return the number of these steps.

        Raises:
            JournalError: the parent has no such step, or another attempt has the child's id.
        """
        forked = replace(child, parent_id=parent_id, fork_scope=scope, fork_seq=seq)

        def work(connection: Connection) -> int:
            if attempts.declare(connection, forked):
                records.copy_before(connection, parent_id, child.attempt_id, scope, seq)
            return records.copied(connection, child.attempt_id)

        return self._database.write(work)

    def acquire(self, attempt_id: str, worker: str, ttl_s: float) -> Lease:
        """Acquire the right to write the attempt, for `ttl_s` seconds unless it is renewed.

        A worker may acquire its own lease again, so worker names must be unique. Calls of earlier
        epochs that have no result are lost. Each is billed at its reservation.

        Raises:
            LeaseHeld: another worker's lease has not expired.
            JournalError: there is no such attempt.
        """

        def work(connection: Connection) -> Lease:
            lease = leases.acquire(connection, attempt_id, worker, ttl_s)
            attempt = attempts.find(connection, attempt_id)
            if attempt is not None:  # other work has leases too
                ledger.forfeit(connection, attempt)
                tenures.begin(connection, lease)
            return lease

        return self._database.write(work)

    def offer(self, name: str) -> None:
        """Create a free lease of that name, unless it exists.

        Use it for work other than an attempt that only one worker may do at a time.
        """
        self._database.write(lambda connection: attempts.open_lease(connection, name))

    def renew(self, lease: Lease, ttl_s: float) -> None:
        """Extend the lease until `ttl_s` seconds from now.

        Raises:
            FencedError: another worker has acquired the lease.
        """
        self._database.write(lambda connection: leases.renew(connection, lease, ttl_s))

    def check(self, lease: Lease) -> None:
        """Check that the lease is still valid.

        Raises:
            FencedError: another worker has acquired the lease.
        """
        self._database.read(lambda connection: leases.check(connection, lease))

    def release(self, lease: Lease) -> None:
        """Release the lease. Do nothing if another worker has acquired it."""

        def work(connection: Connection) -> None:
            leases.release(connection, lease)
            tenures.end(connection, lease)

        self._database.write(work)

    def tenures(self, attempt_id: str) -> list[Tenure]:
        """Return which worker held the attempt when, the first one first."""
        return self._database.read(lambda connection: tenures.read(connection, attempt_id))

    def holder(self, attempt_id: str) -> str | None:
        """Return the worker whose lease on the attempt has not expired, or None."""
        return self._database.read(lambda connection: leases.holder(connection, attempt_id))

    def holders(self, names: Collection[str]) -> dict[str, str]:
        """Return the workers of those leases that have not expired, by name."""
        return self._database.read(lambda connection: leases.holders(connection, names))

    def lapsed(self, names: Collection[str]) -> set[str]:
        """Return those leases whose holder neither renewed nor released them."""
        return self._database.read(lambda connection: leases.lapsed(connection, names))

    def expire(self, attempt_id: str, worker: str) -> None:
        """Expire the lease of a worker that is known to be dead."""
        self._database.write(lambda connection: leases.expire(connection, attempt_id, worker))

    def active(self) -> set[str]:
        """Return the ids of the attempts whose lease has not expired."""
        return self._database.read(leases.active)

    def steps(self, attempt_id: str) -> list[RecordedStep]:
        """Return the attempt's steps by scope and seq, including intents without a result."""
        return self._database.read(
            lambda connection: records.read(connection, attempt_id, self._bodies)
        )

    def intend(
        self,
        lease: Lease,
        scope: str,
        seq: int,
        kind: str,
        digest: str,
        request: bytes,
        reservation: Reservation | None = None,
        inputs: Inputs = UNKNOWN_INPUTS,
        *,
        after: Sequence[EndedStep] = (),
    ) -> None:
        """Record that a step is about to happen, and reserve its highest possible cost.

        The intent replaces one that an earlier epoch left without a result. Before it, record the
        steps that happened `after` the last write, as `append` does.

        Raises:
            BudgetExhausted: a limit does not allow the step; nothing is written.
            BudgetReserved: the same, until calls in flight have settled.
            FencedError: another worker has acquired the attempt.
            JournalError: the step is already recorded, or was begun with another request.
        """
        row = {
            "scope": scope,
            "seq": seq,
            "kind": kind,
            "digest": digest,
            "request": self._bodies.pack(request),
            **_columns(inputs),
        }
        writes = [self._write_of(step) for step in after]

        def work(connection: Connection) -> None:
            ordinals, now = leases.begin_steps(connection, lease, len(writes) + 1)
            for write, ordinal in zip(writes, ordinals[:-1], strict=True):
                write(connection, lease, ordinal=ordinal, now=now)
            mine = {**row, "ordinal": ordinals[-1], "started_at": now}
            begun = records.begin(connection, lease, mine)
            if begun and reservation is not None:
                counted_in = self._names(connection, lease)
                ledger.reserve(connection, lease, scope, seq, reservation, counted_in)

        self._database.write(work)

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
            JournalError: the step was not begun in this epoch, is recorded with another result, or
                has a cost without a reservation.
        """
        row = {
            "result": self._bodies.pack(result),
            "cost_usd": cost_usd,
            "duration_s": duration_s,
            "tree": None if tree is None else str(tree),
        }

        def work(connection: Connection) -> None:
            leases.check(connection, lease)
            counted_in = self._names(connection, lease)
            nusd = ledger.settle(connection, lease, scope, seq, cost_usd, counted_in)
            finished = records.finish(connection, lease, scope, seq, {**row, "settled_nusd": nusd})
            if finished and nusd is None and cost_usd:
                raise JournalError(
                    f"a step of {lease.attempt_id} cost ${cost_usd} and reserved nothing",
                    retryable=False,
                )

        self._database.write(work)

    def append(self, lease: Lease, *steps: EndedStep) -> None:
        """Record steps that are over: `intend` and `record` in one.

        Raises:
            FencedError: another worker has acquired the attempt.
            JournalError: one of them was begun or recorded before, or the attempt that it is
                adopted from has no such step any more.
        """
        writes = [self._write_of(step) for step in steps]

        def work(connection: Connection) -> None:
            ordinals, now = leases.begin_steps(connection, lease, len(writes))
            for write, ordinal in zip(writes, ordinals, strict=True):
                write(connection, lease, ordinal=ordinal, now=now)

        self._database.write(work)

    def resend(self, lease: Lease, scope: str, seq: int, reservation: Reservation) -> None:
        """Reserve the cost of a call whose first request was lost. Errors are those of `intend`."""

        def work(connection: Connection) -> None:
            leases.check(connection, lease)
            ledger.lose(connection, lease, scope, seq)
            counted_in = self._names(connection, lease)
            ledger.reserve(connection, lease, scope, seq, reservation, counted_in)

        self._database.write(work)

    def cancel(self, lease: Lease, scope: str, seq: int) -> None:
        """Cancel an intent whose call cost nothing, and its reservation.

        Raises:
            FencedError: another worker has acquired the attempt.
        """

        def work(connection: Connection) -> None:
            leases.check(connection, lease)
            counted_in = self._names(connection, lease)
            ledger.withdraw(connection, lease, scope, seq, counted_in)
            records.take_back(connection, lease, scope, seq)

        self._database.write(work)

    def end(self, lease: Lease, outcome: str) -> None:
        """Record the outcome of the attempt, as JSON text defined by the caller.

        Raises:
            FencedError: another worker has acquired the attempt.
        """
        self._set_outcome(lease, outcome)

    def reopen(self, lease: Lease) -> None:
        """Remove the outcome of the attempt, so that it can resume.

        Raises:
            FencedError: another worker has acquired the attempt.
            JournalError: its steps were pruned, so it would buy them again.
        """
        if self.pruned_at(lease.attempt_id) is not None:
            raise JournalError(
                f"attempt {lease.attempt_id} cannot resume: its steps were pruned", retryable=False
            )
        self._set_outcome(lease, None)

    def account(self, attempt_id: str) -> Account:
        """Return the cost of the attempt so far; all zero if it does not exist."""
        return self._database.read(lambda connection: ledger.account(connection, attempt_id))

    def spent(self, limit: Limit) -> tuple[float, int]:
        """Return the USD and calls that count against a limit now: settled, reserved and lost."""
        return self._database.read(lambda connection: ledger.spent(connection, limit))

    def take_turn(self, rate: str, seconds: float, burst_s: float) -> float:
        """Acquire `seconds` of a rate that all workers share.

        Return how many seconds to wait before using them. Unused capacity of up to `burst_s` may be
        used at once.
        """
        return self._database.write(
            lambda connection: rates.take_turn(connection, rate, seconds, burst_s)
        )

    def pruned_at(self, attempt_id: str) -> datetime | None:
        """Return when the attempt's steps were removed, UTC, or None if they were not."""
        at = self._database.read(lambda connection: attempts.pruned_at(connection, attempt_id))
        return None if at is None else datetime.fromtimestamp(at, UTC)

    def _write_of(self, step: EndedStep) -> Callable[..., None]:
        """Return the function that writes a step, given its ordinal and the time."""
        if isinstance(step, AdoptedStep):
            return partial(records.adopt, row=self._adopted(step))
        return partial(records.append, row=self._row(step))

    def _adopted(self, step: AdoptedStep) -> dict[str, Any]:
        return {
            "parent_id": step.parent_id,
            "scope": step.scope,
            "seq": step.seq,
            "result": None if step.result is None else self._bodies.pack(step.result),
            **_columns(step.inputs),
        }

    def _row(self, step: FreeStep) -> dict[str, Any]:
        return {
            "scope": step.scope,
            "seq": step.seq,
            "kind": step.kind,
            "digest": step.digest,
            "request": self._bodies.pack(step.request),
            "result": self._bodies.pack(step.result),
            "cost_usd": 0.0,
            "settled_nusd": None,
            "duration_s": step.duration_s,
            "tree": None if step.tree is None else str(step.tree),
            "bench": step.bench,
            **_columns(step.inputs),
        }

    def _set_outcome(self, lease: Lease, outcome: str | None) -> None:
        def work(connection: Connection) -> None:
            leases.check(connection, lease)
            attempts.set_outcome(connection, lease.attempt_id, outcome)

        self._database.write(work)

    def _names(self, connection: Connection, lease: Lease) -> ledger.Names:
        """Return the totals that a held attempt counts in. They never change."""
        names = self._counted_in.get(lease.attempt_id)
        if names is None:
            attempt = attempts.find(connection, lease.attempt_id)
            assert attempt is not None, "a lease is held on an attempt"
            names = self._counted_in[lease.attempt_id] = ledger.names(attempt)
        return names


def _connected(address: URL, patience_s: float) -> Database:
    try:
        return Database(address, patience_s)
    except ImportError as error:
        message = f"{address.get_backend_name()} needs a package: {error}"
        raise JournalError(message, retryable=False) from error
    except OSError as error:
        raise JournalError(f"the journal cannot be created: {error}") from error


def _columns(inputs: Inputs) -> dict[str, str | None]:
    began_at = None if inputs.began_at is None else str(inputs.began_at)
    return {"began_at_tree": began_at, "inputs": inputs.digest}
