"""Rows of steps: write, finish, cancel, read and copy them."""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from agent.errors import JournalError, place
from agent.journal.blobs import Bodies
from agent.journal.database import execute
from agent.journal.types import Inputs, Lease, RecordedStep, TreeRef

KEY = ("attempt_id", "scope", "seq")
INTENT = (
    *("epoch", "ordinal", "kind", "digest", "request", "started_at"),
    *("began_at_tree", "inputs"),
)
RESULT = ("result", "cost_usd", "settled_nusd", "duration_s", "tree", "bench")
COLUMNS = (*KEY, *INTENT, *RESULT)

_REPLACE = f"""
    ON CONFLICT (attempt_id, scope, seq) DO UPDATE
    SET {", ".join(f"{name} = excluded.{name}" for name in (*INTENT, *RESULT))}
    WHERE steps.result IS NULL
"""

_WRITE = f"""
    INSERT INTO steps ({", ".join(COLUMNS)})
    VALUES ({", ".join(f":{name}" for name in COLUMNS)})
    {_REPLACE} AND steps.epoch < excluded.epoch
    RETURNING epoch
"""
"""Insert a step, or replace an intent that an earlier epoch left."""


def _copy(**changes: str) -> str:
    """Return the beginning of a statement that copies steps. The caller adds a condition."""
    values = {"epoch": "0", **changes}  # the epoch of all copies
    columns = ", ".join(values.get(name, name) for name in COLUMNS)
    return f"INSERT INTO steps ({', '.join(COLUMNS)}) SELECT {columns} FROM steps"


_ADOPT = f"""
    {
    _copy(
        attempt_id="CAST(:attempt_id AS TEXT)",
        ordinal="CAST(:ordinal AS INTEGER)",
        began_at_tree="CAST(:began_at_tree AS TEXT)",
        inputs="CAST(:inputs AS TEXT)",
        result="COALESCE(:result, result)",
    )
}
    WHERE attempt_id = :parent_id AND scope = :scope AND seq = :seq AND result IS NOT NULL
    {_REPLACE}
    RETURNING seq
"""
"""Insert a copy of another attempt's step, or replace an intent at its position."""

_COPY_BEFORE = f"""
    {_copy(attempt_id="CAST(:child_id AS TEXT)")}
    WHERE attempt_id = :parent_id AND ordinal < :ordinal AND result IS NOT NULL
"""


def write(connection: Connection, lease: Lease, row: dict[str, Any]) -> bool:
    """Write an intent, or a step that has just ended. Return False if this very row exists.

    Raises:
        JournalError: another step exists at its position.
    """
    values = {**row, "attempt_id": lease.attempt_id, "epoch": lease.epoch}
    if execute(connection, _WRITE, **values).fetchone() is not None:
        return True
    earlier = _find(connection, lease.attempt_id, row["scope"], row["seq"])
    same = (lease.epoch, row["digest"], row["result"])
    if (earlier.epoch, earlier.digest, earlier.result) == same:
        return False
    what = "recorded already" if earlier.result is not None else "started with another request"
    step = f"step {place(row['scope'], row['seq'])} of attempt {lease.attempt_id}"
    raise JournalError(f"{step} is {what}", retryable=False)


def finish(connection: Connection, lease: Lease, row: dict[str, Any]) -> bool:
    """Write the result of an intent. Return False if this very result already exists.

    Raises:
        JournalError: this epoch has not written an intent, or the step has another result.
    """
    statement = """
        UPDATE steps SET result = :result, cost_usd = :cost_usd, settled_nusd = :settled_nusd,
            duration_s = :duration_s, tree = :tree
        WHERE attempt_id = :attempt_id AND scope = :scope AND seq = :seq AND epoch = :epoch
            AND result IS NULL
    """
    cursor = execute(connection, statement, **row, **vars(lease))
    if cursor.rowcount:
        return True
    earlier = _find(connection, lease.attempt_id, row["scope"], row["seq"])
    if earlier is not None and (earlier.epoch, earlier.result) == (lease.epoch, row["result"]):
        return False
    is_recorded = earlier is not None and earlier.result is not None
    what = "recorded with another result" if is_recorded else "not started by this worker"
    step = f"step {place(row['scope'], row['seq'])} of attempt {lease.attempt_id}"
    raise JournalError(f"{step} is {what}", retryable=False)


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
        if "parent_id" not in row:
            times = {"ordinal": ordinal, "started_at": now - row["duration_s"]}
            write(connection, lease, {**row, **times})
            continue
        values = {**row, "ordinal": ordinal, "attempt_id": lease.attempt_id}
        if execute(connection, _ADOPT, **values).fetchone() is not None:
            continue
        earlier = _find(connection, lease.attempt_id, row["scope"], row["seq"])
        if earlier is None or earlier.result is None:
            raise JournalError(
                f"attempt {row['parent_id']} has no step {place(row['scope'], row['seq'])} any "
                "more: its steps were pruned",
                retryable=False,
            )


def remove_intent(connection: Connection, lease: Lease, scope: str, seq: int) -> None:
    """Remove an intent of this epoch, if it exists."""
    statement = """
        DELETE FROM steps
        WHERE attempt_id = :attempt_id AND scope = :scope AND seq = :seq AND epoch = :epoch
            AND result IS NULL
    """
    execute(connection, statement, scope=scope, seq=seq, **vars(lease))


def read(connection: Connection, attempt_id: str, bodies: Bodies) -> list[RecordedStep]:
    """Return an attempt's steps by scope and seq."""
    rows = execute(
        connection, "SELECT * FROM steps WHERE attempt_id = :attempt_id", attempt_id=attempt_id
    )
    steps = [_unpack(row, bodies) for row in rows]
    # PostgreSQL would sort text by the rules of a language.
    return sorted(steps, key=lambda step: (step.scope, step.seq))


def read_new(
    connection: Connection, attempt_id: str, known: Collection[tuple[str, int]], bodies: Bodies
) -> list[RecordedStep]:
    """Return an attempt's further steps with a result, in the order in which they started."""
    statement = """
        SELECT scope, seq, ordinal FROM steps
        WHERE attempt_id = :attempt_id AND result IS NOT NULL
    """
    places = execute(connection, statement, attempt_id=attempt_id).fetchall()
    ordinals = [row.ordinal for row in places if (row.scope, row.seq) not in known]
    statement = """
        SELECT * FROM steps
        WHERE attempt_id = :attempt_id AND result IS NOT NULL
            AND ordinal IN (SELECT CAST(value AS INTEGER) FROM json_each(:ordinals))
        ORDER BY ordinal
    """
    rows = execute(connection, statement, attempt_id=attempt_id, ordinals=json.dumps(ordinals))
    return [_unpack(row, bodies) for row in rows]


def _unpack(row: Any, bodies: Bodies) -> RecordedStep:
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
            None if row.began_at_tree is None else TreeRef.parse(row.began_at_tree), row.inputs
        ),
    )


def copy_before(
    connection: Connection, parent_id: str, child_id: str, scope: str, seq: int
) -> None:
    """Copy the results of all steps that the parent started before the given step to a new attempt.

    Raises:
        JournalError: the parent has no such step.
    """
    step = _find(connection, parent_id, scope, seq)
    if step is None:
        raise JournalError(
            f"attempt {parent_id} has no step {place(scope, seq)} to fork at", retryable=False
        )
    values = {"parent_id": parent_id, "child_id": child_id, "ordinal": step.ordinal}
    execute(connection, _COPY_BEFORE, **values)
    # The child's own steps follow the copied ones.
    execute(
        connection, "UPDATE leases SET ordinal = :ordinal WHERE attempt_id = :child_id", **values
    )


def count_copies(connection: Connection, attempt_id: str) -> int:
    """Return how many of an attempt's steps were copied from its parent."""
    statement = "SELECT COUNT(*) AS copies FROM steps WHERE attempt_id = :attempt_id AND epoch = 0"
    row = execute(connection, statement, attempt_id=attempt_id).fetchone()
    return int(row.copies)


def _find(connection: Connection, attempt_id: str, scope: str, seq: int) -> Any:
    statement = """
        SELECT epoch, ordinal, digest, result FROM steps
        WHERE attempt_id = :attempt_id AND scope = :scope AND seq = :seq
    """
    return execute(connection, statement, attempt_id=attempt_id, scope=scope, seq=seq).fetchone()
