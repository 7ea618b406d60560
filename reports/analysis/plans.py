"""The comparisons that were declared before there were results, and their consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.estimates import Interval
from reports.relations import read_rows
from reports.statistics.paired import is_non_inferior
from reports.types import AnalysisPlan, Comparison, NonInferiority, Provenance

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def read_plans(connection: DuckDBPyConnection) -> tuple[AnalysisPlan, tuple[AnalysisPlan, ...]]:
    """Return the plan declared before the first result, and every later change of it."""
    plan = AnalysisPlan()
    changes: list[AnalysisPlan] = []
    for row in read_rows(connection, "from marts.plans"):
        baseline, candidate = row["primary_baseline"], row["primary_candidate"]
        later = AnalysisPlan(
            primary=None if baseline is None or candidate is None else (baseline, candidate),
            margin=row["primary_margin"],
            family=tuple((pair["baseline"], pair["candidate"]) for pair in row["family"]),
            declared_at=row["declared_at_utc"],
        )
        if not row["is_after_results"]:
            plan = later
        elif not later.is_same_as(changes[-1] if changes else plan):
            changes.append(later)
    return plan, tuple(changes)


def judge_margin(source: Provenance, pair: Comparison) -> NonInferiority | None:
    """Test whether the primary candidate is shown to be not worse, for the leading pair.

    Return None if `pair` is not the primary comparison or no margin was declared.
    """
    primary, margin = source.plan.primary, source.plan.margin
    if primary is None or margin is None or pair.role != "primary":
        return None
    interval = pair.interval
    if pair.candidate != primary[1]:
        interval = Interval(-interval.high, -interval.low)
    return NonInferiority(primary[1], margin, interval.low, is_non_inferior(interval, margin))
