"""The resources of containers, in words."""

from reports.format import UNKNOWN, count, some
from reports.types import ContainerResources, Provenance


def resources(source: Provenance) -> str:
    """Format the limits that containers had: one set, or several."""
    return some([_in_words(each) for each in source.resources], "; or ")


def _in_words(limits: ContainerResources) -> str:
    if limits.memory_gb is None:
        return f"{UNKNOWN} (recorded by an older release)"
    processors = f"{limits.cpus:.3g} {'processor' if limits.cpus == 1 else 'processors'}"
    return (
        f"{limits.memory_gb:.3g} GB of memory, {processors}, "
        f"{count(limits.pids or 0)} processes and {limits.disk_gb or 0:.3g} GB of disk"
    )
