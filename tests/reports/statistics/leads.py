"""Leads of pairs without repeats."""

from reports.estimates import InstanceLeads, PairedTable


def single_leads(table: PairedTable) -> InstanceLeads:
    """Return the leads of a table in which no two pairs are of the same instance."""
    counts = {
        (1, -1): table.only_baseline,
        (1, 0): table.both + table.neither,
        (1, 1): table.only_candidate,
    }
    return InstanceLeads({key: instances for key, instances in counts.items() if instances})
