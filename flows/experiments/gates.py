"""Declared gates: what an arm has to reach for a run to succeed."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from reports.format import percent, usd

if TYPE_CHECKING:
    from reports.types import ArmSummary

Metric = Literal["resolved", "cost_per_instance", "cost_per_resolved"]

COSTS: frozenset[Metric] = frozenset({"cost_per_instance", "cost_per_resolved"})

BOUND = r"^(>=|<=|>|<) *([0-9]+(\.[0-9]+)?)$"

Bound = Annotated[str, Field(pattern=BOUND)]
"""A comparison with a number, such as `>= 0.6`."""

Gates = dict[str, dict[Metric, Bound]]
"""Bounds by arm and metric."""

_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class FailedGate:
    """A bound that an arm does not keep."""

    arm: str
    metric: Metric
    bound: str
    value: float | None
    """None if the value is unknown, which keeps no bound."""
    is_lower_bound: bool = False
    """True if only a part of the cost is known, which keeps no bound either."""

    def __str__(self) -> str:
        """Say what was asked for and what was found."""
        if self.is_lower_bound:
            found = f"{usd(self.value, at_least=True)} and not fully known"
        elif self.value is None:
            found = "unknown"
        else:
            found = percent(self.value) if self.metric == "resolved" else usd(self.value)
        return f"{self.arm}: {self.metric} is {found}, not {self.bound}"


def failed_gates(gates: Gates, arms: "Sequence[ArmSummary]") -> tuple[FailedGate, ...]:
    """Return the bounds that these arms do not keep. An arm that is not there keeps none.

    A cost of which only a part is known keeps none, whatever the rest may be.
    """
    by_name = {arm.name: arm for arm in arms}
    failed = []
    for name, bounds in gates.items():
        for metric, bound in bounds.items():
            arm = by_name.get(name)
            value = _value(arm, metric) if arm else None
            is_part = bool(
                arm and value is not None and metric in COSTS and arm.cost.is_lower_bound
            )
            if value is None or is_part or not _holds(bound, value):
                failed.append(FailedGate(name, metric, bound, value, is_part))
    return tuple(failed)


def _value(arm: "ArmSummary", metric: Metric) -> float | None:
    match metric:
        case "resolved":
            return arm.rate
        case "cost_per_instance":
            return arm.cost_per_instance
        case "cost_per_resolved":
            return arm.cost_per_resolved


def _holds(bound: str, value: float) -> bool:
    parts = re.match(BOUND, bound)
    assert parts, "the declaration was validated"
    return _HOLDS[parts[1]](value, float(parts[2]))
