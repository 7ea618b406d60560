"""Declared gates: bounds that an arm must keep for a run to succeed."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flows.display.errors import GateFailed
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
        if self.is_lower_bound:
            value = f"{usd(self.value, at_least=True)} and not fully known"
        elif self.value is None:
            value = "unknown"
        else:
            value = percent(self.value) if self.metric == "resolved" else usd(self.value)
        return f"{self.arm}: {self.metric} is {value}, not {self.bound}"


def check_answers(arms: "Sequence[ArmSummary]") -> None:
    """Check the gate of every run: that each arm had an answer of its model.

    Raises:
        GateFailed: an arm had none.
    """
    from reports.wording import describe_silence  # imports drawing, which is slow

    if silent := [arm for arm in arms if not arm.has_answers]:
        raise GateFailed(
            f"{describe_silence(silent)} Correct the settings of the model and run again; if only "
            "its server was at fault, run under another --name"
        )


def find_failed_gates(gates: Gates, arms: "Sequence[ArmSummary]") -> tuple[FailedGate, ...]:
    """Return the bounds that these arms do not keep. An arm without results keeps none.

    A partly known cost keeps none, whatever the rest is.
    """
    by_name = {arm.name: arm for arm in arms}
    failed = []
    for name, bounds in gates.items():
        for metric, bound in bounds.items():
            arm = by_name.get(name)
            value, is_part = None, False
            if arm is not None:
                value = arm.rate if metric == "resolved" else getattr(arm, metric)
                is_part = value is not None and metric in COSTS and arm.cost.is_lower_bound
            if value is None or is_part or not _holds(bound, value):
                failed.append(FailedGate(name, metric, bound, value, is_part))
    return tuple(failed)


def _holds(bound: str, value: float) -> bool:
    parts = re.match(BOUND, bound)
    assert parts, "the declaration was validated"
    return _HOLDS[parts[1]](value, float(parts[2]))
