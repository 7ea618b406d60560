"""The best arm of each model, where arms share models."""

from __future__ import annotations

from collections.abc import Iterator

from reports.analysis.best import Best, find_best_of_models
from reports.format import count, p_value, percent, points
from reports.rendering.headline import chance, compared, price
from reports.rendering.lines import interval_text
from reports.sections import Row, Table
from reports.types import ArmSummary, Report

SHOWN = 8
"""Maximum number of models that the terminal shows."""


def models_table(report: Report) -> Table | None:
    """Return a line for each model with several arms, or None if no two arms share a model."""
    found = find_best_of_models(report)
    if not found:
        return None
    header = (
        "model", "best arm", "resolved", "next arm", "resolved", "comparison",
        "lead, points", "95 % interval", "p",
    )  # fmt: skip
    caption = "The best arm of each model against the next of the same model"
    return Table(caption, header, tuple(_row(report, best) for best in found), 2)


def model_lines(report: Report) -> Iterator[str]:
    """Yield a line for each model with several arms, and one on how many are not shown."""
    found = find_best_of_models(report)
    for best in found[:SHOWN]:
        rival = best.next
        told = compared(rival.lead, rival.p_value)
        if told == "no difference seen":
            told = f"{told} to {rival.arm.name}"
        else:
            told = f"{told} than {rival.arm.name}"
        yield (
            f"{best.arm.model}: {best.arm.name} {_facts(report, best.arm)}, {told} "
            f"({percent(rival.arm.rate)}; {chance(rival.p_value)})"
        )
    if len(found) > SHOWN:
        yield f"and {count(len(found) - SHOWN)} more models, all in the report"


def _facts(report: Report, arm: ArmSummary) -> str:
    cost = price(report, arm)
    return percent(arm.rate) + (f" at {cost}" if cost else "")


def _row(report: Report, best: Best) -> Row:
    rival = best.next
    pair = rival.pair
    interval = pair.interval
    if pair.candidate != best.arm.name:
        interval = type(interval)(-interval.high, -interval.low)
    return (
        best.arm.model,
        best.arm.name,
        _facts(report, best.arm),
        rival.arm.name,
        _facts(report, rival.arm),
        compared(rival.lead, rival.p_value),
        points(rival.lead),
        interval_text(interval, points),
        p_value(rival.p_value),
    )
