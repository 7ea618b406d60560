"""One experiment's report, from the lake."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.errors import ReportError
from reports.lake import near
from reports.notes import write_notes
from reports.paired import read_arms, read_cells, read_comparisons, read_rows
from reports.relations import open_marts, run_audits
from reports.resampled import read_resampled
from reports.types import ArmSummary, Report, Role, Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CONTROLS = ("gold", "null")
"""Agents that prove images and graders; a comparison nobody declared leaves them out."""


def build(
    lake: Path, experiment: str, baseline: str | None = None, candidate: str | None = None
) -> Report:
    """The report of one experiment, complete or not.

    `baseline` and `candidate` put another pair of arms than the declared one first. Raises
    ReportError for a missing lake, an unknown experiment or arm, and an experiment that
    declares nothing.
    """
    connection = open_marts(lake, experiment)
    try:
        source = _read_source(connection, experiment)
        arms = read_arms(connection)
        pair, role = _first_pair(arms, source.primary, baseline, candidate)
        comparisons = read_comparisons(connection, pair, role)
        return Report(
            source=source,
            audits=run_audits(connection),
            notes=write_notes(source, arms, comparisons),
            arms=arms,
            comparisons=comparisons,
            resampled=read_resampled(connection, *pair) if pair else None,
            cells=read_cells(connection),
        )
    finally:
        connection.close()


def _read_source(connection: DuckDBPyConnection, experiment: str) -> Source:
    rows = read_rows(connection, "from marts.source")
    if not rows:
        raise ReportError(f"experiment {experiment!r} has no declaration in the lake: run it again")
    row = rows[0]
    if not row["instance_ids"]:
        raise ReportError(f"experiment {experiment!r} plans no instance: nothing to report")
    primary = (row["primary_baseline"], row["primary_candidate"])
    times = [row["last_attempt_utc"], row["last_evaluation_utc"]]
    return Source(
        experiment=experiment,
        dataset=row["dataset"],
        dataset_digest=row["dataset_digest"],
        declaration_digest=row["declaration_digest"],
        declared_at=row["declared_at_utc"],
        declarations=row["declarations"],
        instances=len(row["instance_ids"]),
        repeats=row["repeats"],
        environment=row["environment"],
        primary=None if None in primary else primary,
        first_attempt=row["first_attempt_utc"],
        last_activity=max((time for time in times if time), default=None),
        versions=_merge_versions(row),
    )


def _merge_versions(row: dict[str, Any]) -> Mapping[str, str]:
    """Package to version over all attempts; more than one version shows as a list."""
    seen: dict[str, set[str]] = defaultdict(set)
    for text in row["versions"] or ():
        for package, version in json.loads(text).items():
            seen[package].add(str(version))
    seen["swebench"].update(row["harness_versions"] or ())
    return {package: ", ".join(sorted(seen[package])) for package in sorted(seen) if seen[package]}


def _first_pair(
    arms: tuple[ArmSummary, ...],
    primary: tuple[str, str] | None,
    baseline: str | None,
    candidate: str | None,
) -> tuple[tuple[str, str] | None, Role]:
    """The pair of arms that the report leads with, and why it does."""
    names = [arm.name for arm in arms]
    for name in (baseline, candidate):
        if name is not None and name not in names:
            raise ReportError(f"no arm {name!r} in this experiment; {near(name, names)}")
    if baseline is None and candidate is None:
        if primary and set(primary) <= set(names):
            return primary, "primary"
        return _default_pair(arms), "exploratory"
    pair = _complete_pair(names, primary, baseline, candidate)
    return pair, "primary" if pair == primary else "chosen"


def _default_pair(arms: tuple[ArmSummary, ...]) -> tuple[str, str] | None:
    """The first two arms that are no controls, or the first two there are."""
    by_interest = sorted(arms, key=lambda arm: arm.agent in CONTROLS)
    first, second = (*(arm.name for arm in by_interest[:2]), None, None)[:2]
    return None if first is None or second is None else (first, second)


def _complete_pair(
    names: list[str],
    primary: tuple[str, str] | None,
    baseline: str | None,
    candidate: str | None,
) -> tuple[str, str]:
    """Both arms of a pair of which at least one is given."""
    declared = primary or (None, None)
    first, second = baseline or declared[0], candidate or declared[1]
    given = baseline or candidate
    if first == second or first is None or second is None:
        others = [name for name in names if name != given]
        if (baseline and candidate) or len(others) != 1:
            raise ReportError(
                "a comparison needs two different arms: give --baseline and --candidate"
            )
        first, second = (baseline or others[0]), (candidate or others[0])
    return first, second
