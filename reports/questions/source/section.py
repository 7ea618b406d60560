"""Where do the numbers come from?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.format import UNKNOWN, moment, plural
from reports.rendering.sections import Section
from reports.types import Provenance, Report
from reports.wording import list_comparisons, list_resources

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the declaration, the times and the versions behind a report."""
    source = report.source
    versions = ", ".join(f"{name} {version}" for name, version in source.versions.items())
    cells = f"{plural(source.instances, 'instance')} × {plural(source.repeats, 'repeat')}"
    facts = {
        "Experiment": source.experiment,
        "Dataset": f"{source.dataset} (rows {source.dataset_digest})",
        "Planned": f"{cells} in {plural(len(report.arms), 'arm')}",
        "Declared": f"{moment(source.declared_at)} (declaration {source.declaration_digest})",
        "Comparisons declared": list_comparisons(source.plan),
        "Ran": _span(source),
        "Environment": source.environment,
        **({"Resources": list_resources(source)} if source.resources else {}),
        "Versions": versions or UNKNOWN,
    }
    return Section("source", "Source", facts=tuple(facts.items()), is_detail=True)


def _span(source: Provenance) -> str:
    """Format the time span of an experiment, from its first attempt to its last activity."""
    if source.first_attempt is None or source.last_activity is None:
        return "at times that are not recorded"
    return f"{moment(source.first_attempt)} to {moment(source.last_activity)}"
