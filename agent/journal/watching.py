"""Reads for viewers that follow attempts while they work, several times a second."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select

from agent.journal import inbox, records
from agent.journal.attempts import FIELDS
from agent.journal.bodies import Bodies
from agent.journal.database import Database
from agent.journal.inbox import Wait
from agent.journal.tables import attempts, steps
from agent.journal.types import Attempt, RecordedStep


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
        self._database, self._bodies = database, bodies

    def attempts(self, experiments: Collection[str]) -> list[Watched]:
        """Return the attempts of experiments, by id, in two queries regardless of their number."""
        its = attempts.c.experiment.in_(experiments)
        ids = select(attempts.c.attempt_id).where(its)
        # Counted by a condition: counting the column would read every result.
        counted = (
            select(steps.c.attempt_id, func.count().label("steps"))
            .where(steps.c.attempt_id.in_(ids), steps.c.result.is_not(None))
            .group_by(steps.c.attempt_id)
        )
        ended = attempts.c.outcome.is_not(None).label("has_ended")
        named = select(*FIELDS, ended).where(its).order_by(attempts.c.attempt_id)
        found = self._database.read(lambda connection: connection.execute(named).all())
        numbers = dict(
            self._database.read(
                lambda connection: [(row[0], row[1]) for row in connection.execute(counted)]
            )
        )
        return [
            Watched(
                Attempt(**{column.name: row._mapping[column.name] for column in FIELDS}),
                bool(row.has_ended),
                numbers.get(row.attempt_id, 0),
            )
            for row in found
        ]

    def waits(self, names: Collection[str]) -> dict[str, Wait]:
        """Return what attempts wait for, or have last waited for, by id."""
        return self._database.read(lambda connection: inbox.waiting(connection, [*names]))

    def new_steps(self, attempt_id: str, known: Collection[tuple[str, int]]) -> list[RecordedStep]:
        """Return the steps with a result whose scope and seq are not known yet, as they began."""
        return self._database.read(
            lambda connection: records.read_new(connection, attempt_id, known, self._bodies)
        )
