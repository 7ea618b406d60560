"""Calls and their costs: reservations, their settlement, and the limits on both.

Every call is one row. It is `reserved` before it is sent, `settled` at its cost when its result
arrives, and `lost` at its reservation when its answer will never be known. Limited amounts are kept
as totals per attempt, arm and experiment, so that a reservation costs the same however long the
experiment is. Money is counted in whole billionths of a dollar, so that sums are exact.
"""

import math
from typing import Any

from sqlalchemy import Connection

from agent.errors import BudgetExhausted, BudgetReserved, JournalError
from agent.journal.database import execute
from agent.journal.types import Account, Attempt, Lease, Limit, Reservation

NUSD = 1_000_000_000
"""Billionths of a dollar in one dollar."""

# All transactions lock the totals in the same order, which prevents deadlocks.
_COUNT = """
    UPDATE totals SET nusd = nusd + :nusd, calls = calls + :calls
    WHERE (kind, name) IN (
        SELECT totals.kind, totals.name
        FROM attempts JOIN totals
            ON totals.kind = 'attempt' AND totals.name = attempts.attempt_id
            OR totals.kind = 'arm' AND totals.name = attempts.experiment || '/' || attempts.arm
            OR totals.kind = 'experiment' AND totals.name = attempts.experiment
        WHERE attempts.attempt_id = :attempt_id
        ORDER BY totals.kind
        FOR UPDATE OF totals
    )
    RETURNING kind, name, nusd, calls
"""
"""Add to the totals that an attempt counts in."""

_IS_RESERVED = (
    "attempt_id = :attempt_id AND scope = :scope AND seq = :seq AND epoch = :epoch "
    "AND state = 'reserved'"
)


def reserve(
    connection: Connection, lease: Lease, scope: str, seq: int, reservation: Reservation
) -> None:
    """Reserve the highest possible cost of a call; nothing if it is unknown.

    Raises:
        BudgetExhausted: a limit does not allow the call.
        BudgetReserved: a limit may allow it when calls in flight have settled.
        JournalError: a limit is on a total that the attempt does not count in.
    """
    nusd = to_nusd(reservation.usd or 0.0)
    rows = execute(connection, _COUNT, attempt_id=lease.attempt_id, nusd=nusd, calls=1)
    totals = {row.kind: row for row in rows}
    errors = []
    for limit in reservation.limits:
        if totals[limit.kind].name != limit.name:
            raise JournalError(
                f"attempt {lease.attempt_id} does not count in {limit.kind} {limit.name}",
                retryable=False,
            )
        if error := _find_excess(connection, limit, nusd, totals[limit.kind]):
            errors.append(error)
    # A limit that no waiting helps comes first.
    for error in sorted(errors, key=lambda error: isinstance(error, BudgetReserved)):
        raise error
    execute(
        connection,
        """
        INSERT INTO ledger
            (attempt_id, scope, seq, epoch, state, reserved_nusd, billed_nusd, unpriced)
        VALUES (:attempt_id, :scope, :seq, :epoch, 'reserved', :nusd, :nusd, :unpriced)
        """,
        scope=scope,
        seq=seq,
        nusd=nusd,
        unpriced=int(reservation.usd is None),
        **vars(lease),
    )


def _find_excess(
    connection: Connection, limit: Limit, nusd: int, total: Any
) -> BudgetExhausted | None:
    """Return the reason why a limit does not allow a call of `nusd`, or None if it does.

    `total` contains that call.
    """
    whose = f"the budget of {limit.kind} {limit.name}"
    if limit.calls is not None and total.calls > limit.calls:
        return BudgetExhausted(f"{whose} has no calls left of {limit.calls}")
    if limit.usd is None or total.nusd <= to_nusd(limit.usd):
        return None
    # The sum of the reservations of active workers.
    statement = """
        SELECT COALESCE(SUM(reserved_nusd), 0) AS nusd
        FROM leases
            JOIN attempts ON attempts.attempt_id = leases.attempt_id
            JOIN ledger ON ledger.attempt_id = leases.attempt_id
        WHERE leases.expires_at > clock() AND ledger.state = 'reserved' AND CASE CAST(:kind AS TEXT)
            WHEN 'attempt' THEN attempts.attempt_id
            WHEN 'arm' THEN attempts.experiment || '/' || attempts.arm
            ELSE attempts.experiment
        END = :name
    """
    row = execute(connection, statement, kind=limit.kind, name=limit.name).fetchone()
    can_pass = total.nusd - int(row.nusd) <= to_nusd(limit.usd)
    return (BudgetReserved if can_pass else BudgetExhausted)(
        f"{whose} is ${limit.usd:.4f}: ${(total.nusd - nusd) / NUSD:.4f} is spent or reserved, "
        f"and the next call can cost ${nusd / NUSD:.4f}"
    )


def settle(
    connection: Connection, lease: Lease, scope: str, seq: int, cost_usd: float | None
) -> int | None:
    """Settle a reservation at the call's cost, or at the reserved amount if the cost is unknown.

    Return the settled amount in billionths of a dollar, or None if nothing is reserved.
    """
    row = execute(
        connection,
        f"""
        UPDATE ledger SET
            state = 'settled',
            billed_nusd = COALESCE(CAST(:nusd AS BIGINT), reserved_nusd),
            unpriced = CASE WHEN CAST(:nusd AS BIGINT) IS NULL THEN unpriced ELSE 0 END
        WHERE {_IS_RESERVED}
        RETURNING reserved_nusd, billed_nusd
        """,
        scope=scope,
        seq=seq,
        nusd=None if cost_usd is None else to_nusd(cost_usd),
        **vars(lease),
    ).fetchone()
    if row is None:
        return None
    more = row.billed_nusd - row.reserved_nusd
    execute(connection, _COUNT, attempt_id=lease.attempt_id, nusd=more, calls=0).fetchall()
    return int(row.billed_nusd)


def withdraw(connection: Connection, lease: Lease, scope: str, seq: int) -> None:
    """Remove the reservation of a call that was never sent, if there is one."""
    statement = f"DELETE FROM ledger WHERE {_IS_RESERVED} RETURNING reserved_nusd"
    row = execute(connection, statement, scope=scope, seq=seq, **vars(lease)).fetchone()
    if row is not None:
        nusd = -row.reserved_nusd
        execute(connection, _COUNT, attempt_id=lease.attempt_id, nusd=nusd, calls=-1).fetchall()


def lose(connection: Connection, lease: Lease, scope: str, seq: int) -> None:
    """Mark the open reservation of a call as lost, so that its request can be sent again.

    The first request was perhaps charged for, and is billed at its reservation. Its row gets a
    negative epoch, -1 for the first request of a call that was lost.
    """
    statement = f"""
        UPDATE ledger SET state = 'lost', epoch = -1 - (
            SELECT COUNT(*) FROM ledger AS lost
            WHERE lost.attempt_id = :attempt_id AND lost.scope = :scope AND lost.seq = :seq
                AND lost.epoch < 0
        )
        WHERE {_IS_RESERVED}
    """
    execute(connection, statement, scope=scope, seq=seq, **vars(lease))


def forfeit(connection: Connection, attempt_id: str) -> None:
    """Mark every open reservation as lost. It stays billed at the highest possible cost.

    Such a call was perhaps sent, and its answer will never be known. A lower estimate would let a
    program that crashes on purpose spend more than its budget.
    """
    execute(
        connection,
        "UPDATE ledger SET state = 'lost' WHERE attempt_id = :attempt_id AND state = 'reserved'",
        attempt_id=attempt_id,
    )


def forget(connection: Connection, attempt: Attempt) -> None:
    """Remove the whole bill of an attempt from the ledger and its totals."""
    bill, attempt_id = _read_bill(connection, attempt.attempt_id), attempt.attempt_id
    values = {"attempt_id": attempt_id, "nusd": -int(bill.nusd), "calls": -bill.calls}
    execute(connection, _COUNT, **values).fetchall()
    execute(connection, "DELETE FROM ledger WHERE attempt_id = :attempt_id", attempt_id=attempt_id)
    statement = "DELETE FROM totals WHERE kind = 'attempt' AND name = :attempt_id"
    execute(connection, statement, attempt_id=attempt_id)


def account(connection: Connection, attempt_id: str) -> Account:
    """Return the cost of the attempt so far."""
    statement = """
        SELECT
            COALESCE(SUM(settled_nusd), 0) AS nusd,
            COUNT(settled_nusd) AS calls,
            COUNT(CASE WHEN cost_usd IS NULL THEN settled_nusd END) AS unpriced,
            COUNT(CASE WHEN cost_usd IS NULL AND settled_nusd = 0 THEN 1 END) AS unknown
        FROM steps WHERE attempt_id = :attempt_id
    """
    credit = execute(connection, statement, attempt_id=attempt_id).fetchone()
    bill = _read_bill(connection, attempt_id)
    return Account(
        billed_usd=to_usd(bill.nusd, bill.unpriced),
        credited_usd=to_usd(credit.nusd, credit.unknown),
        calls_billed=bill.calls,
        calls_credited=credit.calls,
        unpriced_calls=credit.unpriced,
    )


def _read_bill(connection: Connection, attempt_id: str) -> Any:
    """Return the sum of an attempt's calls, their number, and how many have an unknown bill."""
    statement = """
        SELECT
            COALESCE(SUM(billed_nusd), 0) AS nusd,
            COUNT(*) AS calls,
            COALESCE(SUM(unpriced), 0) AS unpriced
        FROM ledger WHERE attempt_id = :attempt_id
    """
    return execute(connection, statement, attempt_id=attempt_id).fetchone()


def spent(connection: Connection, limit: Limit) -> tuple[float, int]:
    """Return the USD and calls that count against a limit: settled, reserved and lost."""
    statement = "SELECT nusd, calls FROM totals WHERE kind = :kind AND name = :name"
    row = execute(connection, statement, kind=limit.kind, name=limit.name).fetchone()
    return (0.0, 0) if row is None else (row.nusd / NUSD, row.calls)


def take_turn(connection: Connection, name: str, seconds: float, burst_s: float) -> float:
    """Acquire `seconds` of a rate that all workers share.

    Return how many seconds to wait before using them. Unused capacity of up to `burst_s` can be
    used at once. The generic cell rate algorithm (ITU-T I.371) is a token bucket kept as one time,
    at which all admitted requests are paid off. A worker that dies holds nothing.
    """
    statement = """
        INSERT INTO rates (name, free_at) VALUES (:name, clock() + :seconds)
        ON CONFLICT (name) DO UPDATE SET free_at = :seconds
            + CASE WHEN rates.free_at > clock() THEN rates.free_at ELSE clock() END
        RETURNING free_at - clock() AS ahead_s
    """
    row = execute(connection, statement, name=name, seconds=float(seconds)).fetchone()
    return max(0.0, float(row.ahead_s) - max(burst_s, seconds))


def to_nusd(usd: float) -> int:
    """Return an amount in billionths of a dollar.

    Raises:
        ValueError: the amount is negative or not a number.
    """
    if not (math.isfinite(usd) and usd >= 0):
        raise ValueError(f"{usd} is not an amount of money")
    return round(usd * NUSD)


def to_usd(nusd: Any, unknown: int) -> float | None:
    """Return a sum in US dollars, or None if any of its parts is `unknown`."""
    return None if unknown else int(nusd) / NUSD
