"""Calls and their costs: reservations, their settlement, and the limits on both.

Every call is one row. It is `reserved` before it is sent, `settled` at its cost when its result
arrives, and `lost` at its reservation when its answer will never be known. Limited amounts are kept
as totals per attempt, arm and experiment. A transaction always locks those rows in the same order.
"""

import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.errors import BudgetExhausted, BudgetReserved, JournalError
from agent.journal.database import clock
from agent.journal.tables import PreparedStatement, attempts, leases, ledger, rates, steps, totals
from agent.journal.types import Account, Attempt, Lease, Limit, Reservation

NUSD = 1_000_000_000
"""Billionths of a dollar in one dollar."""

_COUNTED_IN = or_(
    *(
        (totals.c.kind == kind) & (totals.c.name == bindparam(kind))
        for kind in ("attempt", "arm", "experiment")
    )
)
_LOCKED = (
    select(totals.c.kind, totals.c.name)
    .where(_COUNTED_IN)
    .order_by(totals.c.kind)
    .with_for_update()
)
"""All transactions lock the totals in the same order, which prevents deadlocks. A transaction that
writes on SQLite is alone anyway."""


def _add(*told: Column[Any]) -> PreparedStatement:
    """Return the statement that adds to the totals, and tells these columns of the new ones."""
    added = update(totals).values(
        nusd=totals.c.nusd + bindparam("more_nusd"), calls=totals.c.calls + bindparam("more_calls")
    )
    where = {
        "sqlite": _COUNTED_IN,
        "postgresql": tuple_(totals.c.kind, totals.c.name).in_(_LOCKED),
    }
    by_dialect = {name: added.where(which) for name, which in where.items()}
    return PreparedStatement(
        {name: each.returning(*told) if told else each for name, each in by_dialect.items()}
    )


_ADD, _ADD_AND_TELL = _add(), _add(*totals.c)
_CALL = (
    ledger.c.attempt_id == bindparam("attempt"),
    ledger.c.scope == bindparam("at_scope"),
    ledger.c.seq == bindparam("at_seq"),
    ledger.c.epoch == bindparam("held"),
    ledger.c.state == "reserved",
)
_RESERVE = PreparedStatement(insert(ledger), tuple(ledger.c.keys()))
_SETTLE = PreparedStatement(
    update(ledger)
    .where(*_CALL)
    .values(
        state="settled",
        billed_nusd=func.coalesce(bindparam("cost_nusd", type_=BigInteger), ledger.c.reserved_nusd),
        unpriced=case(
            (bindparam("cost_nusd", type_=BigInteger).is_(None), ledger.c.unpriced), else_=0
        ),
    )
    .returning(ledger.c.reserved_nusd, ledger.c.billed_nusd)
)
_WITHDRAW = delete(ledger).where(*_CALL).returning(ledger.c.reserved_nusd)

_MORE = bindparam("more_s", type_=rates.c.free_at.type)
_FREE_AT = case((rates.c.free_at > clock(), rates.c.free_at), else_=clock()) + _MORE

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
    """Reserve the highest possible cost of a call; nothing if it is unknown.

    Raises:
        BudgetExhausted: a limit does not allow the call.
        BudgetReserved: a limit may allow it when calls in flight have settled.
        JournalError: a limit is on a total that the attempt does not count in.
    """
    nusd = to_nusd(reservation.usd or 0.0)
    after = _count_and_tell(connection, counted_in, nusd)
    for limit in reservation.limits:
        if counted_in[limit.kind] != limit.name:
            raise JournalError(
                f"attempt {lease.attempt_id} does not count in {limit.kind} {limit.name}",
                retryable=False,
            )
    exceeded = [
        error
        for limit in reservation.limits
        if (error := _check_limit(connection, limit, nusd, after[limit.kind], counted_in))
    ]
    # A limit that no waiting helps comes first.
    for error in sorted(exceeded, key=lambda error: isinstance(error, BudgetReserved)):
        raise error
    row = {
        "attempt_id": lease.attempt_id,
        "scope": scope,
        "seq": seq,
        "epoch": lease.epoch,
        "state": "reserved",
        "reserved_nusd": nusd,
        "billed_nusd": nusd,
        "unpriced": int(reservation.usd is None),
    }
    _RESERVE.run(connection, row)


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
    call = _SETTLE.run(connection, {**_key(lease, scope, seq), "cost_nusd": cost}).fetchone()
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


def lose(connection: Connection, lease: Lease, scope: str, seq: int) -> None:
    """Mark the open reservation of a call as lost, so that its request may be sent again.

    The first request was perhaps charged for, and is billed at its reservation. Its row gets a
    negative epoch, -1 for the first request of a call that was lost.
    """
    lost_before = (
        select(func.count())
        .select_from(ledger)
        .where(
            ledger.c.attempt_id == lease.attempt_id,
            ledger.c.scope == scope,
            ledger.c.seq == seq,
            ledger.c.epoch < 0,
        )
    )
    number = connection.execute(lost_before).scalar_one() + 1
    connection.execute(
        update(ledger).where(*_CALL).values(state="lost", epoch=-number), _key(lease, scope, seq)
    )


def forfeit(connection: Connection, attempt_id: str) -> None:
    """Mark every open reservation as lost. It stays billed at what the call can have cost.

    Such a call was perhaps sent, and its answer will never be known. A lower estimate would let a
    program that crashes on purpose spend more than its budget.
    """
    connection.execute(
        update(ledger)
        .where(ledger.c.attempt_id == attempt_id, ledger.c.state == "reserved")
        .values(state="lost")
    )


def forget(connection: Connection, attempt: Attempt) -> None:
    """Remove the whole bill of an attempt from the ledger and its totals."""
    billed = _sum_bill(connection, attempt.attempt_id)
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
            func.count(case((steps.c.cost_usd.is_(None) & (steps.c.settled_nusd == 0), 1))).label(
                "unknown"
            ),
        ).where(steps.c.attempt_id == attempt_id)
    ).one()
    billed = _sum_bill(connection, attempt_id)
    return Account(
        billed_usd=to_usd(billed.nusd, billed.unpriced),
        credited_usd=to_usd(credited.nusd, credited.unknown),
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


def take_turn(connection: Connection, name: str, seconds: float, burst_s: float) -> float:
    """Acquire `seconds` of a rate that all workers share.

    Return how many seconds to wait before using them. Unused capacity of up to `burst_s` may be
    used at once. The generic cell rate algorithm (ITU-T I.371) is a token bucket kept as one time,
    at which all admitted requests are paid off. A worker that dies holds nothing.
    """
    insert_into = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    statement = (
        insert_into(rates)
        .values(name=name, free_at=clock() + _MORE)
        .on_conflict_do_update(index_elements=[rates.c.name], set_={"free_at": _FREE_AT})
        .returning((rates.c.free_at - clock()).label("ahead_s"))
    )
    ahead_s: float = connection.execute(statement, {"more_s": seconds}).scalar_one()
    return max(0.0, ahead_s - max(burst_s, seconds))


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


def _sum_bill(connection: Connection, attempt_id: str) -> Any:
    """Return the sum of an attempt's calls, `nusd`, and their number, `calls`.

    `unpriced` is the number of those with an unknown bill.
    """
    return connection.execute(
        select(
            func.coalesce(func.sum(ledger.c.billed_nusd), 0).label("nusd"),
            func.count().label("calls"),
            func.coalesce(func.sum(ledger.c.unpriced), 0).label("unpriced"),
        ).where(ledger.c.attempt_id == attempt_id)
    ).one()


def _count(connection: Connection, counted_in: Names, nusd: int, calls: int) -> None:
    """Add to the totals."""
    _ADD.run(connection, {**counted_in, "more_nusd": nusd, "more_calls": calls})


def _count_and_tell(connection: Connection, counted_in: Names, nusd: int) -> dict[str, Any]:
    """Add a call to the totals. Return the new totals by kind."""
    added = {**counted_in, "more_nusd": nusd, "more_calls": 1}
    return {row.kind: row for row in _ADD_AND_TELL.run(connection, added)}


def _check_limit(
    connection: Connection, limit: Limit, nusd: int, after: Any, counted_in: Names
) -> BudgetExhausted | None:
    """Return the reason why a limit does not allow a call of `nusd`, or None if it does."""
    whose = f"the budget of {limit.kind} {limit.name}"
    if limit.calls is not None and after.calls > limit.calls:
        return BudgetExhausted(f"{whose} is {limit.calls} calls, and all are made")
    if limit.usd is None or after.nusd <= to_nusd(limit.usd):
        return None
    flying = _in_flight(connection, limit, counted_in)
    may_free = after.nusd - flying <= to_nusd(limit.usd)
    return (BudgetReserved if may_free else BudgetExhausted)(
        f"{whose} is ${limit.usd:.2f}: ${(after.nusd - nusd) / NUSD:.4f} is spent or reserved, "
        f"and the next call can cost ${nusd / NUSD:.4f}"
    )


def _in_flight(connection: Connection, limit: Limit, counted_in: Names) -> int:
    """Return what living workers have reserved within a limit, in billionths of a dollar."""
    experiment, arm = counted_in["experiment"], counted_in["arm"]
    within = {
        "attempt": attempts.c.attempt_id == counted_in["attempt"],
        "arm": attempts.c.arm == arm.removeprefix(f"{experiment}/"),
        "experiment": true(),
    }[limit.kind]
    total = connection.execute(
        select(func.coalesce(func.sum(ledger.c.reserved_nusd), 0))
        .select_from(leases)
        .join(attempts, attempts.c.attempt_id == leases.c.attempt_id)
        .join(ledger, ledger.c.attempt_id == leases.c.attempt_id)
        .where(
            leases.c.expires_at > clock(),
            ledger.c.state == "reserved",
            attempts.c.experiment == experiment,
            within,
        )
    ).scalar_one()
    return int(total)


def _key(lease: Lease, scope: str, seq: int) -> dict[str, str | int]:
    return {"attempt": lease.attempt_id, "at_scope": scope, "at_seq": seq, "held": lease.epoch}
