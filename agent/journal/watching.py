"""Reads for those who follow attempts: their progress, and what changes while they work."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, case, func, select

from agent.journal import inbox, records
from agent.journal.attempts import FIELDS
from agent.journal.blobs import Bodies
from agent.journal.database import Database, clock, reads
from agent.journal.inbox import Wait
from agent.journal.ledger import NUSD, to_usd
from agent.journal.tables import attempts, leases, ledger, steps
from agent.journal.types import Attempt, Progress, RecordedStep

_ATTEMPTS = (
    select(
        *FIELDS,
        attempts.c.outcome.is_not(None).label("has_ended"),
        attempts.c.pruned_at.is_not(None).label("is_pruned"),
        leases.c.worker,
        case((leases.c.expires_at > 0, leases.c.expires_at)).label("expires_at"),
        clock().label("now"),
    )
    .outerjoin(leases, leases.c.attempt_id == attempts.c.attempt_id)
    .order_by(attempts.c.attempt_id)
)
_STEPS = select(
    steps.c.attempt_id,
    # A fork's other steps were copied, with their times.
    func.min(case((steps.c.epoch > 0, steps.c.started_at))).label("first"),
    func.max(
        case((steps.c.epoch > 0, steps.c.started_at + func.coalesce(steps.c.duration_s, 0.0)))
    ).label("last"),
    func.count(steps.c.result).label("steps"),
    func.count(steps.c.settled_nusd).label("calls"),
    func.coalesce(func.sum(case((steps.c.cost_usd.is_not(None), steps.c.settled_nusd))), 0).label(
        "nusd"
    ),
    func.count(case((steps.c.cost_usd.is_(None), steps.c.settled_nusd))).label("unpriced"),
).group_by(steps.c.attempt_id)
_LEDGER = select(
    ledger.c.attempt_id,
    func.sum(ledger.c.billed_nusd).label("nusd"),
    func.count(case((ledger.c.state != "settled", 1))).label("unanswered"),
    func.coalesce(func.sum(case((ledger.c.state != "settled", ledger.c.billed_nusd))), 0).label(
        "unanswered_nusd"
    ),
    func.sum(ledger.c.unpriced).label("unpriced"),
    func.count(case(((ledger.c.state != "settled") & (ledger.c.unpriced == 1), 1))).label(
        "unanswered_unpriced"
    ),
).group_by(ledger.c.attempt_id)


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
        """Return the attempts of experiments, by id, in two queries regardless of their number."""
        its = attempts.c.experiment.in_(experiments)
        # Counted by a condition: counting the column would read every result.
        counted = (
            select(steps.c.attempt_id, func.count())
            .where(
                steps.c.attempt_id.in_(select(attempts.c.attempt_id).where(its)),
                steps.c.result.is_not(None),
            )
            .group_by(steps.c.attempt_id)
        )
        ended = attempts.c.outcome.is_not(None)
        found = connection.execute(
            select(*FIELDS, ended).where(its).order_by(attempts.c.attempt_id)
        ).all()
        numbers = {row[0]: row[1] for row in connection.execute(counted)}
        return [
            Watched(Attempt(*row[:-1]), bool(row[-1]), numbers.get(row.attempt_id, 0))
            for row in found
        ]

    @reads
    def waits(self, connection: Connection, names: Collection[str]) -> dict[str, Wait]:
        """Return what attempts wait for, or have last waited for, by id."""
        return inbox.waiting(connection, [*names])

    @reads
    def new_steps(
        self, connection: Connection, attempt_id: str, known: Collection[tuple[str, int]]
    ) -> list[RecordedStep]:
        """Return the steps with a result whose scope and seq are not known yet, as they began."""
        return records.read_new(connection, attempt_id, known, self._bodies)


def progress(connection: Connection, experiment: str) -> list[Progress]:
    """Return the progress of the attempts of an experiment, by id."""
    its = attempts.c.experiment == experiment
    ids = select(attempts.c.attempt_id).where(its)
    stepped = _by_attempt(connection, _STEPS.where(steps.c.attempt_id.in_(ids)))
    billed = _by_attempt(connection, _LEDGER.where(ledger.c.attempt_id.in_(ids)))
    found = connection.execute(_ATTEMPTS.where(its)).all()
    return [
        _progress(row, stepped.get(row.attempt_id), billed.get(row.attempt_id)) for row in found
    ]


def _by_attempt(connection: Connection, query: Any) -> Mapping[str, Row[Any]]:
    return {row.attempt_id: row for row in connection.execute(query)}


def _progress(row: Row[Any], stepped: Row[Any] | None, billed: Row[Any] | None) -> Progress:
    return Progress(
        attempt=Attempt(*row[: len(FIELDS)]),
        has_ended=bool(row.has_ended),
        is_pruned=bool(row.is_pruned),
        worker=row.worker or None,
        lease_left_s=None if row.expires_at is None else row.expires_at - row.now,
        now=_time(row.now),
        first_step_at=None if stepped is None or stepped.first is None else _time(stepped.first),
        last_step_at=None if stepped is None or stepped.last is None else _time(stepped.last),
        steps=stepped.steps if stepped else 0,
        calls=stepped.calls if stepped else 0,
        cost_usd=int(stepped.nusd) / NUSD if stepped else 0.0,
        unpriced_calls=stepped.unpriced if stepped else 0,
        billed_usd=to_usd(billed.nusd, billed.unpriced) if billed else 0.0,
        unbilled_calls=billed.unpriced if billed else 0,
        unanswered_calls=billed.unanswered if billed else 0,
        unanswered_usd=(
            to_usd(billed.unanswered_nusd, billed.unanswered_unpriced) if billed else 0.0
        ),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
