"""The numbers that a report shows for the leading pair of arms."""

from reports.build import build
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.shown import line, lines

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def leading(lake: LakeBuilder) -> Report:
    """Return the report of the experiment `trial`."""
    return build(lake.root, "trial")


def test_nothing_resolved_and_nothing_known_are_dashes(lake: LakeBuilder) -> None:
    """Undefined and unknown values are dashes, neither infinity nor zero."""
    lake.declare(["a", "b"], ["i1", "i2"])
    for instance in ("i1", "i2"):
        lake.cell("a", instance, "unresolved")
        lake.cell("b", instance, duration_s=None)
    found = leading(lake)
    nothing = line(found, "a")
    assert (nothing.value, nothing.interval, nothing.over) == (DASH, DASH, "2 pairs")
    assert not [each for each in lines(found) if each.name.startswith("time")]


def test_a_rounding_error_is_no_difference(lake: LakeBuilder) -> None:
    """A difference that is only a rounding error of floats is shown as zero."""
    lake.declare(["a", "b"], ["i1", "i2"])
    for arm, costs in (("a", (0.15, 0.15)), ("b", (0.1, 0.2))):
        for instance, cost in zip(("i1", "i2"), costs, strict=True):
            lake.cell(arm, instance, cost_usd=cost)
    assert line(leading(lake), "cost, difference per cell").value == "$0"
