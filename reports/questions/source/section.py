"""Where do the numbers come from?"""

from reports.format import UNKNOWN, moment, plural
from reports.rendering.sections import Section
from reports.types import Report
from reports.wording import list_comparisons, list_resources


def answer(_: object, report: Report) -> Section:
    """Return the declaration, the times and the versions behind a report."""
    source = report.source
    versions = ", ".join(f"{name} {version}" for name, version in source.versions.items())
    cells = f"{plural(source.instances, 'instance')} × {plural(source.repeats, 'repeat')}"
    ran = "at times that are not recorded"
    if source.first_attempt and source.last_activity:
        ran = f"{moment(source.first_attempt)} to {moment(source.last_activity)}"
    facts = {
        "Experiment": source.experiment,
        "Dataset": f"{source.dataset} (rows {source.dataset_digest})",
        "Planned": f"{cells} in {plural(len(report.arms), 'arm')}",
        "Declared": f"{moment(source.declared_at)} (declaration {source.declaration_digest})",
        "Comparisons declared": list_comparisons(source.plan),
        "Ran": ran,
        "Environment": source.environment,
        **({"Resources": list_resources(source)} if source.resources else {}),
        "Versions": versions or UNKNOWN,
    }
    return Section("source", "Source", facts=tuple(facts.items()), is_detail=True)
