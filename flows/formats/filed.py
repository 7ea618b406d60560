"""Attempts of a lake, with all their rows."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from agent.journal import Journal
from flows.display.errors import UsageError
from flows.formats import talk
from flows.formats.attempts import AttemptFacts, ExchangedAttempt
from flows.storage.files import copy_exactly, make_readable
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row


@dataclass(frozen=True)
class ResolvedRate:
    """Resolved and planned cells of an arm."""

    resolved: int
    planned: int
    """Planned cells."""

    @property
    def value(self) -> float:
        """Resolved share of the planned cells."""
        return self.resolved / self.planned


def rates(lake: Lake, experiment: str) -> dict[str, ResolvedRate]:
    """Return the rates of the arms of an experiment, as a report shows them."""
    from reports.relations import open_marts

    with lake.reading():
        connection = open_marts(lake.root, experiment)
    rows = connection.execute(
        """
        select arm, count(*) filter (where state = 'resolved'), count(*)
        from marts.cells
        group by arm, position
        order by position
        """
    ).fetchall()
    connection.close()
    return {arm: ResolvedRate(resolved, planned) for arm, resolved, planned in rows}


def of_experiment(lake: Lake, experiment: str) -> Iterator[ExchangedAttempt]:
    """Yield the attempts of an experiment that count in reports, by arm, instance and repeat.

    Raises:
        ReportError: the experiment does not exist.
    """
    yield from _attempts(lake, experiment, "semi join marts.counted_attempts using (attempt_id)")


def of_prefix(lake: Lake, prefix: str) -> ExchangedAttempt:
    """Return the attempt whose id begins with `prefix`.

    Raises:
        UsageError: there is no such attempt, or there are several.
    """
    hint = f"in {lake.root}; `durabench status NAME --cells` lists them"
    places = lake.places("attempts", f"{prefix}*")
    if len(places) > 1:
        raise UsageError(f"{len(places)} attempts begin with {prefix!r} {hint}")
    for experiment, _, unit in places:
        for attempt in _attempts(lake, experiment, "where attempt_id = ?", unit):
            return attempt
    raise UsageError(f"there is no experiment and no finished attempt {prefix!r} {hint}")


def _attempts(lake: Lake, experiment: str, chosen: str, *of: str) -> Iterator[ExchangedAttempt]:
    """Yield the attempts that a clause of SQL selects."""
    from reports.relations import open_marts  # DuckDB takes a tenth of a second to import

    with lake.reading():
        connection = open_marts(lake.root, experiment)
    places = connection.execute(
        f"select arm, attempt_id from staging.attempts {chosen} order by arm, instance_id, repeat",  # noqa: S608
        of,
    ).fetchall()
    graded = {
        attempt_id: (outcome, reason)
        for attempt_id, outcome, reason in connection.execute(
            "select attempt_id, outcome, reason from marts.counted_evaluations"
        ).fetchall()
    }
    connection.close()
    rows = {row["attempt_id"]: row for row in lake.rows("attempts", experiment)}
    patches = _patches(lake, experiment)
    journal = existing_journal(lake)
    known = journal.find("") if journal else []
    forks = {each.attempt_id for each in known if each.parent_id is not None}
    for arm, attempt_id in places:
        verdict, reason = graded.get(attempt_id, (None, ""))
        row = rows[attempt_id]
        facts = _facts(arm, row, patches.get(attempt_id), verdict, reason)
        release = row.get("agent_version") or facts.versions.get(facts.agent)
        found = ExchangedAttempt(
            facts,
            experiment,
            attempt_id,
            version=release or facts.versions.get("durabench", ""),
        )
        where = (experiment, arm, attempt_id)
        lines = talk.lines(
            lake.read("steps", *where),
            lake.read("llm_calls", *where),
            found.model,
            _copied(journal, forks, row) if journal else frozenset(),
        )
        yield replace(found, lines=lines)


def _facts(arm: str, row: Row, patch: str | None, verdict: str | None, reason: str) -> AttemptFacts:
    own = {name: row[name] for name in AttemptFacts.model_fields if name in row}
    return AttemptFacts.model_validate(
        {
            **own,
            "arm": arm,
            "versions": json.loads(row["versions"]),
            "patch": None if patch is None else make_readable(patch),
            "patch_json": None if patch is None else copy_exactly(patch),
            "verdict": verdict,
            "reason": reason,
        }
    )


def _patches(lake: Lake, experiment: str) -> dict[str, str]:
    return {row["attempt_id"]: row["model_patch"] for row in lake.rows("predictions", experiment)}


def _copied(journal: Journal, forks: Collection[str], row: Row) -> Collection[tuple[str, int]]:
    """Return the steps that a fork copied; none if they were pruned."""
    if row["attempt_id"] not in forks:
        return frozenset()
    return {(step.scope, step.seq) for step in journal.steps(row["attempt_id"]) if step.copied}
