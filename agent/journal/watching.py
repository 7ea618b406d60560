"""Reads for viewers that follow attempts: their progress, and changes while they work."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from agent.journal import inbox, records
from agent.journal.attempts import FIELDS
from agent.journal.blobs import Bodies
from agent.journal.database import Database, execute, reads
from agent.journal.inbox import Wait
from agent.journal.ledger import NUSD, to_usd
from agent.journal.types import Attempt, Progress, RecordedStep


@dataclass(frozen=True)
class Watched:
    """An attempt as a viewer follows it."""

    attempt: Attempt
    has_ended: bool
    steps: int
    """Steps with a result."""


class Watching:
    """The changes of a journal. No method reads more than the change."""

    def __init__(self, database: Database, bodies: Bodies) -> None:
        self.database, self._bodies = database, bodies

    @reads
    def attempts(self, connection: Connection, experiments: Collection[str]) -> list[Watched]:
        """Return the attempts of experiments, by id, in one query regardless of their number."""
        # Counted by a condition: counting the column would read every result.
        statement = f"""
            SELECT {FIELDS}, outcome IS NOT NULL, (
                SELECT COUNT(*) FROM steps
                WHERE steps.attempt_id = attempts.attempt_id AND result IS NOT NULL
            )
            FROM attempts
            WHERE experiment IN (SELECT value FROM json_each(:experiments))
            ORDER BY attempt_id
        """
        rows = execute(connection, statement, experiments=json.dumps([*experiments]))
        return [Watched(Attempt(*row[:-2]), bool(row[-2]), row[-1]) for row in rows]

    @reads
    def waits(self, connection: Connection, names: Collection[str]) -> dict[str, Wait]:
        """Return what attempts wait for, or have last waited for, by id."""
        return inbox.waiting(connection, [*names])

    @reads
    def new_steps(
        self, connection: Connection, attempt_id: str, known: Collection[tuple[str, int]]
    ) -> list[RecordedStep]:
        """Return the further steps with a result, in the order in which they started."""
        return records.read_new(connection, attempt_id, known, self._bodies)


def progress(connection: Connection, experiment: str) -> list[Progress]:
    """Return the progress of the attempts of an experiment, by id."""
    # A fork's other steps were copied, with their times. A call that an earlier epoch left open is
    # not in flight.
    statement = f"""
        WITH chosen AS (
            SELECT attempt_id AS id FROM attempts WHERE experiment = :experiment
        ), step AS (
            SELECT steps.attempt_id,
                MIN(CASE WHEN steps.epoch > 0 THEN started_at END) AS first_at,
                MAX(CASE WHEN steps.epoch > 0 THEN started_at + COALESCE(duration_s, 0) END)
                    AS last_at,
                MAX(CASE WHEN result IS NULL AND steps.epoch = leases.epoch THEN started_at END)
                    AS asked_at,
                COUNT(result) AS steps,
                COUNT(settled_nusd) AS calls,
                SUM(CASE WHEN cost_usd IS NOT NULL THEN settled_nusd END) AS nusd,
                COUNT(CASE WHEN cost_usd IS NULL THEN settled_nusd END) AS unpriced
            FROM steps
                JOIN chosen ON id = steps.attempt_id
                LEFT JOIN leases ON leases.attempt_id = steps.attempt_id
            GROUP BY steps.attempt_id
        ), bill AS (
            SELECT attempt_id,
                SUM(billed_nusd) AS billed,
                SUM(unpriced) AS unbilled,
                COUNT(CASE WHEN state <> 'settled' THEN 1 END) AS unanswered,
                SUM(CASE WHEN state <> 'settled' THEN billed_nusd END) AS unanswered_nusd,
                COUNT(CASE WHEN state <> 'settled' AND unpriced = 1 THEN 1 END)
                    AS unanswered_unpriced
            FROM ledger JOIN chosen ON id = attempt_id GROUP BY attempt_id
        )
        SELECT {FIELDS},
            outcome IS NOT NULL AS has_ended, pruned_at IS NOT NULL AS is_pruned,
            worker, CASE WHEN expires_at > 0 THEN expires_at END AS expires_at, clock() AS now,
            retry, retry_at,
            first_at, last_at, asked_at, steps, calls, nusd, unpriced,
            billed, unbilled, unanswered, unanswered_nusd, unanswered_unpriced
        FROM attempts
            LEFT JOIN leases ON leases.attempt_id = attempts.attempt_id
            LEFT JOIN step ON step.attempt_id = attempts.attempt_id
            LEFT JOIN bill ON bill.attempt_id = attempts.attempt_id
        WHERE experiment = :experiment
        ORDER BY attempts.attempt_id
    """
    rows = execute(connection, statement, experiment=experiment)
    return [
        Progress(
            attempt=Attempt(*row[:10]),
            has_ended=bool(row.has_ended),
            is_pruned=bool(row.is_pruned),
            worker=row.worker or None,
            lease_left_s=None if row.expires_at is None else row.expires_at - row.now,
            now=datetime.fromtimestamp(row.now, UTC),
            first_step_at=_to_time(row.first_at),
            last_step_at=_to_time(row.last_at),
            open_call_at=_to_time(row.asked_at),
            steps=row.steps or 0,
            calls=row.calls or 0,
            cost_usd=int(row.nusd or 0) / NUSD,
            unpriced_calls=row.unpriced or 0,
            billed_usd=to_usd(row.billed or 0, row.unbilled),
            unbilled_calls=row.unbilled or 0,
            unanswered_calls=row.unanswered or 0,
            unanswered_usd=to_usd(row.unanswered_nusd or 0, row.unanswered_unpriced),
            retry=row.retry,
            retry_in_s=None if row.retry_at is None else row.retry_at - row.now,
        )
        for row in rows
    ]


def _to_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
