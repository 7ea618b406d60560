"""Rows of steps: begin, finish, cancel, read and copy them."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from agent.errors import JournalError, place
from agent.journal.blobs import Bodies
from agent.journal.tables import PreparedStatement, leases, steps
from agent.journal.types import Inputs, Lease, RecordedStep, TreeRef

_PLACE = (
    steps.c.attempt_id == bindparam("attempt"),
    steps.c.scope == bindparam("at_scope"),
    steps.c.seq == bindparam("at_seq"),
)
_MINE = (*_PLACE, steps.c.epoch == bindparam("held"), steps.c.result.is_(None))


_INTENT = (
    *("epoch", "ordinal", "kind", "digest", "request", "started_at"),
    *("began_at_tree", "inputs"),
)
_RESULT = ("result", "cost_usd", "settled_nusd", "duration_s", "tree")
_WHOLE = (*_INTENT, *_RESULT, "bench")
_CHANGED = ("ordinal", "began_at_tree", "inputs", "result")
"""Columns that may differ in a copy of another attempt's step. The result is kept if None."""

_INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

_AT_ONCE = 200
"""Steps in one query, far below the limits of both databases."""


def _begin(fields: tuple[str, ...]) -> PreparedStatement:
    """Insert a step, or replace an intent that an earlier epoch left."""

    def upsert(insert_into: Any) -> ClauseElement:
        statement = insert_into(steps)
        new = statement.excluded
        inserted: ClauseElement = statement.on_conflict_do_update(
            index_elements=[steps.c.attempt_id, steps.c.scope, steps.c.seq],
            set_={name: new[name] for name in fields},
            where=steps.c.result.is_(None) & (steps.c.epoch < new.epoch),
        ).returning(steps.c.epoch)
        return inserted

    return PreparedStatement(
        {name: upsert(insert_into) for name, insert_into in _INSERTS.items()},
        ("attempt_id", "scope", "seq", *fields),
    )


def _adoption() -> PreparedStatement:
    """Insert a copy of another attempt's step, or replace an intent at its position."""
    new = {name: bindparam(f"new_{name}", type_=steps.c[name].type) for name in _CHANGED}
    own: dict[str, ColumnElement[Any]] = {
        **new,
        "attempt_id": bindparam("attempt", type_=steps.c.attempt_id.type),
        "epoch": literal(0),
        "result": func.coalesce(new["result"], steps.c.result),
    }
    copy = select(*[own.get(column.name, column) for column in steps.c]).where(
        steps.c.attempt_id == bindparam("parent"),
        steps.c.scope == bindparam("at_scope"),
        steps.c.seq == bindparam("at_seq"),
        steps.c.result.is_not(None),
    )

    def upsert(insert_into: Any) -> ClauseElement:
        statement = insert_into(steps).from_select([column.name for column in steps.c], copy)
        key = [steps.c.attempt_id, steps.c.scope, steps.c.seq]
        others = {column.name: statement.excluded[column.name] for column in set(steps.c) - {*key}}
        copied: ClauseElement = statement.on_conflict_do_update(
            index_elements=key, set_=others, where=steps.c.result.is_(None)
        ).returning(steps.c.seq)
        return copied

    return PreparedStatement({name: upsert(insert_into) for name, insert_into in _INSERTS.items()})


_BEGIN, _ENTER, _ADOPT = _begin(_INTENT), _begin(_WHOLE), _adoption()
_FINISH = PreparedStatement(
    update(steps).where(*_MINE).values({name: bindparam(f"new_{name}") for name in _RESULT})
)
_FIND = select(steps.c.epoch, steps.c.digest, steps.c.request, steps.c.result).where(*_PLACE)
_TAKE_BACK = delete(steps).where(*_MINE)


def begin(connection: Connection, lease: Lease, row: dict[str, Any]) -> bool:
    """Write an intent. Return False if this very intent already exists.

    Raises:
        JournalError: the step is recorded, or was begun with another request.
    """
    mine = {**row, "attempt_id": lease.attempt_id, "epoch": lease.epoch}
    if _BEGIN.run(connection, mine).fetchone() is not None:
        return True
    there = connection.execute(_FIND, _key(lease, row["scope"], row["seq"])).one()
    same = (there.epoch, there.digest) == (lease.epoch, row["digest"])
    if there.result is None and same:
        return False
    what = "recorded already" if there.result is not None else "begun with another request"
    raise JournalError(
        f"{_format_step(lease, row['scope'], row['seq'])} is {what}", retryable=False
    )


def finish(connection: Connection, lease: Lease, scope: str, seq: int, row: dict[str, Any]) -> bool:
    """Write a result. Return False if this very result already exists.

    Raises:
        JournalError: there is no intent of this epoch, or the step has another result.
    """
    values = {f"new_{name}": value for name, value in row.items()}
    key = _key(lease, scope, seq)
    if _FINISH.run(connection, {**key, "held": lease.epoch, **values}).rowcount:
        return True
    there = connection.execute(_FIND, key).first()
    if there is not None and (there.epoch, there.result) == (lease.epoch, row["result"]):
        return False
    recorded = there is not None and there.result is not None
    what = "recorded with another result" if recorded else "not begun by this worker"
    raise JournalError(f"{_format_step(lease, scope, seq)} is {what}", retryable=False)


def append(
    connection: Connection,
    lease: Lease,
    rows: Sequence[dict[str, Any]],
    ordinals: Sequence[int],
    now: float,
) -> None:
    """Write steps that have just ended, unless they already exist.

    Those with a `parent_id` are copied from that attempt.

    Raises:
        JournalError: another step exists at a position, or the other attempt has no such step.
    """
    for row, ordinal in zip(rows, ordinals, strict=False):
        if "parent_id" in row:
            _adopt(connection, lease, {**row, "ordinal": ordinal})
        else:
            started_at = now - row["duration_s"]
            _enter(connection, lease, {**row, "ordinal": ordinal, "started_at": started_at})


def _enter(connection: Connection, lease: Lease, row: dict[str, Any]) -> None:
    mine = {**row, "attempt_id": lease.attempt_id, "epoch": lease.epoch}
    if _ENTER.run(connection, mine).fetchone() is not None:
        return
    there = connection.execute(_FIND, _key(lease, row["scope"], row["seq"])).one()
    same = (there.epoch, there.digest, there.result) == (lease.epoch, row["digest"], row["result"])
    if not same:
        step = _format_step(lease, row["scope"], row["seq"])
        raise JournalError(f"{step} was begun or recorded already", retryable=False)


def _adopt(connection: Connection, lease: Lease, row: dict[str, Any]) -> None:
    """Copy one step of another attempt. `row` has its position and the columns of `_CHANGED`."""
    key = _key(lease, row["scope"], row["seq"])
    changed = {f"new_{name}": row[name] for name in _CHANGED}
    if (
        _ADOPT.run(connection, {**key, **changed, "parent": row["parent_id"]}).fetchone()
        is not None
    ):
        return
    there = connection.execute(_FIND, key).first()
    if there is None or there.result is None:
        raise JournalError(
            f"attempt {row['parent_id']} has no step {place(row['scope'], row['seq'])} any more: "
            "its steps were pruned",
            retryable=False,
        )


def take_back(connection: Connection, lease: Lease, scope: str, seq: int) -> None:
    """Remove an intent of this epoch, if it exists."""
    connection.execute(_TAKE_BACK, {**_key(lease, scope, seq), "held": lease.epoch})


def read(connection: Connection, attempt_id: str, bodies: Bodies) -> list[RecordedStep]:
    """Return an attempt's steps by scope and seq."""
    rows = connection.execute(select(steps).where(steps.c.attempt_id == attempt_id)).all()
    # Not in SQL: PostgreSQL sorts text by the rules of a language.
    found = (_make_step(row, bodies) for row in rows)
    return sorted(found, key=lambda step: (step.scope, step.seq))


def read_new(
    connection: Connection, attempt_id: str, known: Collection[tuple[str, int]], bodies: Bodies
) -> list[RecordedStep]:
    """Return an attempt's steps with a result that are not known yet, in the order they began."""
    answered = (steps.c.attempt_id == attempt_id, steps.c.result.is_not(None))
    places = connection.execute(select(steps.c.scope, steps.c.seq).where(*answered)).all()
    new = [(row.scope, row.seq) for row in places if (row.scope, row.seq) not in known]
    found = [
        _make_step(row, bodies)
        for begin in range(0, len(new), _AT_ONCE)
        for row in connection.execute(
            select(steps).where(
                *answered, tuple_(steps.c.scope, steps.c.seq).in_(new[begin : begin + _AT_ONCE])
            )
        )
    ]
    return sorted(found, key=lambda step: step.ordinal)


def _make_step(row: Row[Any], bodies: Bodies) -> RecordedStep:
    return RecordedStep(
        scope=row.scope,
        seq=row.seq,
        kind=row.kind,
        digest=row.digest,
        request=bodies.unpack(row.request),
        result=None if row.result is None else bodies.unpack(row.result),
        cost_usd=row.cost_usd,
        started_at=datetime.fromtimestamp(row.started_at, UTC),
        duration_s=row.duration_s,
        tree=None if row.tree is None else TreeRef.parse(row.tree),
        ordinal=row.ordinal,
        copied=row.epoch == 0,
        bench=row.bench,
        inputs=Inputs(
            None if row.began_at_tree is None else TreeRef.parse(row.began_at_tree),
            row.inputs,
        ),
    )


def copy_before(
    connection: Connection, parent_id: str, child_id: str, scope: str, seq: int
) -> None:
    """Copy the results of all steps that the parent began before the given step to a new attempt.

    Raises:
        JournalError: the parent has no such step.
    """
    key = {"attempt": parent_id, "at_scope": scope, "at_seq": seq}
    ordinal = connection.execute(select(steps.c.ordinal).where(*_PLACE), key).scalar()
    if ordinal is None:
        raise JournalError(
            f"attempt {parent_id} has no step {place(scope, seq)} to fork at", retryable=False
        )
    given: dict[str, ColumnElement[Any]] = {"attempt_id": literal(child_id), "epoch": literal(0)}
    prefix = select(*[given.get(column.name, column) for column in steps.c]).where(
        steps.c.attempt_id == parent_id, steps.c.ordinal < ordinal, steps.c.result.is_not(None)
    )
    connection.execute(insert(steps).from_select([column.name for column in steps.c], prefix))
    # The child's own steps follow the copied ones.
    connection.execute(
        update(leases).where(leases.c.attempt_id == child_id).values(ordinal=ordinal)
    )


def count_copied(connection: Connection, attempt_id: str) -> int:
    """Return how many of an attempt's steps were copied from its parent."""
    found = connection.execute(
        select(func.count()).where(steps.c.attempt_id == attempt_id, steps.c.epoch == 0)
    )
    return int(found.scalar_one())


def _key(lease: Lease, scope: str, seq: int) -> dict[str, str | int]:
    """Return the parameters that identify a step in this module's statements."""
    return {"attempt": lease.attempt_id, "at_scope": scope, "at_seq": seq}


def _format_step(lease: Lease, scope: str, seq: int) -> str:
    return f"step {place(scope, seq)} of attempt {lease.attempt_id}"
