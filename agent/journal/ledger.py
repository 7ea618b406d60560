"""Calls and their costs: reservations, their settlement, and the limits on both.

Every call is one row. It is `reserved` before it is sent, `settled` at its cost when its result
arrives, and `lost` at its reservation when its worker died in between. Limited amounts are kept as
totals per attempt, arm and experiment. A transaction always locks those rows in the same order.
"""

import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.errors import BudgetExhausted, JournalError
from agent.journal.tables import ledger, steps, totals
from agent.journal.types import Account, Attempt, Lease, Limit, Reservation

NUSD = 1_000_000_000
"""Billionths of a dollar in one dollar."""

_COUNTED_IN = or_(
    *(
        (totals.c.kind == kind) & (totals.c.name == bindparam(kind))
        for kind in ("attempt", "arm", "experiment")
    )
)
_LOCK = select(totals).where(_COUNTED_IN).order_by(totals.c.kind).with_for_update()
_ADD = (
    update(totals)
    .where(_COUNTED_IN)
    .values(
        nusd=totals.c.nusd + bindparam("more_nusd"), calls=totals.c.calls + bindparam("more_calls")
    )
)
_ADD_AND_TELL = _ADD.returning(totals)
_CALL = (
    ledger.c.attempt_id == bindparam("attempt"),
    ledger.c.scope == bindparam("at_scope"),
    ledger.c.seq == bindparam("at_seq"),
    ledger.c.epoch == bindparam("held"),
    ledger.c.state == "reserved",
)
_RESERVE = insert(ledger)
_SETTLE = (
    update(ledger)
    .where(*_CALL)
    .values(
        state="settled",
        billed_nusd=func.coalesce(bindparam("cost_nusd", type_=BigInteger), ledger.c.reserved_nusd),
    )
    .returning(ledger.c.reserved_nusd, ledger.c.billed_nusd)
)
_WITHDRAW = delete(ledger).where(*_CALL).returning(ledger.c.reserved_nusd)

Names = Mapping[str, str]
"""The totals that an attempt counts in, as names by kind."""


def names(attempt: Attempt) -> Names:
    """Return the totals that an attempt counts in."""
    return {
        "attempt": attempt.attempt_id,
        "arm": f"{attempt.experiment}/{attempt.arm}",
        "experiment": attempt.experiment,
    }


def open_totals(connection: Connection, counted_in: Names) -> None:
    """Create the totals that are missing."""
    sqlite = connection.dialect.name == "sqlite"
    statement = (sqlite_insert if sqlite else postgresql_insert)(totals).on_conflict_do_nothing()
    for kind, name in counted_in.items():
        connection.execute(statement, {"kind": kind, "name": name, "nusd": 0, "calls": 0})


def reserve(
    connection: Connection,
    lease: Lease,
    scope: str,
    seq: int,
    reservation: Reservation,
    counted_in: Names,
) -> None:
    """Reserve the highest possible cost of a call.

    Raises:
        BudgetExhausted: a limit does not allow the call.
        JournalError: a limit is on a total that the attempt does not count in.
    """
    nusd = to_nusd(reservation.usd)
    after = _count_and_tell(connection, counted_in, nusd)
    for limit in reservation.limits:
        if counted_in[limit.kind] != limit.name:
            raise JournalError(
                f"attempt {lease.attempt_id} does not count in {limit.kind} {limit.name}",
                retryable=False,
            )
        _check(limit, nusd, after[limit.kind])
    row = {
        "attempt_id": lease.attempt_id,
        "scope": scope,
        "seq": seq,
        "epoch": lease.epoch,
        "state": "reserved",
        "reserved_nusd": nusd,
        "billed_nusd": nusd,
    }
    connection.execute(_RESERVE, row)


def settle(
    connection: Connection,
    lease: Lease,
    scope: str,
    seq: int,
    cost_usd: float | None,
    counted_in: Names,
) -> int | None:
    """Settle a reservation at the call's cost, or at the reserved amount if the cost is unknown.

    Return the settled amount in billionths of a dollar, or None if nothing is reserved.
    """
    cost = None if cost_usd is None else to_nusd(cost_usd)
    call = connection.execute(_SETTLE, {**_key(lease, scope, seq), "cost_nusd": cost}).first()
    if call is None:
        return None
    _count(connection, counted_in, call.billed_nusd - call.reserved_nusd, 0)
    billed: int = call.billed_nusd
    return billed


def withdraw(connection: Connection, lease: Lease, scope: str, seq: int, counted_in: Names) -> None:
    """Remove the reservation of a call that was never sent, if there is one."""
    reserved = connection.execute(_WITHDRAW, _key(lease, scope, seq)).scalar()
    if reserved is not None:
        _count(connection, counted_in, -reserved, -1)


def forfeit(connection: Connection, attempt_id: str) -> None:
    """Mark every open reservation as lost.

    Such a call was perhaps sent, and its answer will never be known.
    """
    connection.execute(
        update(ledger)
        .where(ledger.c.attempt_id == attempt_id, ledger.c.state == "reserved")
        .values(state="lost")
    )


def forget(connection: Connection, attempt: Attempt) -> None:
    """Remove the whole bill of an attempt from the ledger and its totals."""
    billed = _billed(connection, attempt.attempt_id)
    _count(connection, names(attempt), -int(billed.nusd), -billed.calls)
    connection.execute(delete(ledger).where(ledger.c.attempt_id == attempt.attempt_id))
    connection.execute(
        delete(totals).where(totals.c.kind == "attempt", totals.c.name == attempt.attempt_id)
    )


def account(connection: Connection, attempt_id: str) -> Account:
    """Return the cost of the attempt so far."""
    credited = connection.execute(
        select(
            func.coalesce(func.sum(steps.c.settled_nusd), 0).label("nusd"),
            func.count(steps.c.settled_nusd).label("calls"),
            func.count(case((steps.c.cost_usd.is_(None), steps.c.settled_nusd))).label("unpriced"),
        ).where(steps.c.attempt_id == attempt_id)
    ).one()
    billed = _billed(connection, attempt_id)
    return Account(
        billed_usd=int(billed.nusd) / NUSD,
        credited_usd=int(credited.nusd) / NUSD,
        calls_billed=billed.calls,
        calls_credited=credited.calls,
        unpriced_calls=credited.unpriced,
    )


def spent(connection: Connection, limit: Limit) -> tuple[float, int]:
    """Return the USD and calls that count against a limit: settled, reserved and lost."""
    total = connection.execute(
        select(totals.c.nusd, totals.c.calls).where(
            totals.c.kind == limit.kind, totals.c.name == limit.name
        )
    ).first()
    return (total.nusd / NUSD, total.calls) if total is not None else (0.0, 0)


def to_nusd(usd: float) -> int:
    """Return an amount in billionths of a dollar.

    Raises:
        ValueError: the amount is negative or not a number.
    """
    if not (math.isfinite(usd) and usd >= 0):
        raise ValueError(f"{usd} is not an amount of money")
    return round(usd * NUSD)


def _billed(connection: Connection, attempt_id: str) -> Any:
    """Return the sum of an attempt's calls, `nusd`, and their number, `calls`."""
    return connection.execute(
        select(
            func.coalesce(func.sum(ledger.c.billed_nusd), 0).label("nusd"),
            func.count().label("calls"),
        ).where(ledger.c.attempt_id == attempt_id)
    ).one()


def _count(connection: Connection, counted_in: Names, nusd: int, calls: int) -> None:
    """Add to the totals."""
    _lock(connection, counted_in)
    connection.execute(_ADD, {**counted_in, "more_nusd": nusd, "more_calls": calls})


def _count_and_tell(connection: Connection, counted_in: Names, nusd: int) -> dict[str, Any]:
    """Add a call to the totals. Return the new totals by kind."""
    _lock(connection, counted_in)
    added = {**counted_in, "more_nusd": nusd, "more_calls": 1}
    return {row.kind: row for row in connection.execute(_ADD_AND_TELL, added)}


def _lock(connection: Connection, counted_in: Names) -> None:
    """Lock the totals. All transactions use the same order, which prevents deadlocks."""
    if connection.dialect.name != "sqlite":  # a write transaction on SQLite is exclusive anyway
        connection.execute(_LOCK, counted_in).all()


def _check(limit: Limit, nusd: int, after: Any) -> None:
    whose = f"the budget of {limit.kind} {limit.name}"
    if limit.calls is not None and after.calls > limit.calls:
        raise BudgetExhausted(f"{whose} is {limit.calls} calls, and all are made")
    if limit.usd is not None and after.nusd > to_nusd(limit.usd):
        raise BudgetExhausted(
            f"{whose} is ${limit.usd:.2f}: ${(after.nusd - nusd) / NUSD:.4f} is spent or reserved, "
            f"and the next call can cost ${nusd / NUSD:.4f}"
        )


def _key(lease: Lease, scope: str, seq: int) -> dict[str, str | int]:
    return {"attempt": lease.attempt_id, "at_scope": scope, "at_seq": seq, "held": lease.epoch}
