"""The grid of harnesses and models as tables."""

from __future__ import annotations

from collections.abc import Iterator

from reports.format import DASH, count, percent, plural, points
from reports.harnesses import HarnessGrid, Interaction
from reports.rendering.sections import Row, Section, Table
from reports.types import Report

TITLE = "Harnesses by model"


def grid_section(report: Report) -> Section | None:
    """Return tables and footnotes, or None if the arms are no grid of harnesses and models."""
    grid = report.grid
    if grid is None:
        return None
    return Section("grid", TITLE, "", tuple(_tables(report, grid)), _FOOTNOTES)


def _tables(report: Report, grid: HarnessGrid) -> Iterator[Table]:
    rates = [
        (harness, *(_rate(report, grid, harness, model) for model in grid.models))
        for harness in grid.harnesses
    ]
    yield Table("Share of planned cells resolved", ("harness", *grid.models), tuple(rates))
    agreements = tuple(
        (*each.models, count(each.harnesses), _tau(each.tau)) for each in grid.agreements
    )
    header = ("model", "and model", "harnesses", "Kendall's tau-b")
    yield Table("Do two models rank the harnesses alike?", header, agreements, 2)
    yield Table(
        "Does the lead of a harness depend on the model?" + _left_out(grid),
        ("harness", "against", "with", "less with", "interaction, points", "95 % interval", "over"),
        tuple(map(_interaction, grid.interactions)),
        4,
    )


def _rate(report: Report, grid: HarnessGrid, harness: str, model: str) -> str:
    arm = grid.arms.get((harness, model))
    return DASH if arm is None else percent(report.arm(arm).rate)


def _tau(tau: float | None) -> str:
    return DASH if tau is None else f"{tau:+.2f}".replace("-", "−")


def _interaction(each: Interaction) -> Row:
    interval = each.estimate.interval
    limits = f"{points(interval.low)} to {points(interval.high)}"
    over = plural(each.estimate.clusters, "instance")
    return (*each.harnesses, *each.models, points(each.estimate.value), limits, over)


def _left_out(grid: HarnessGrid) -> str:
    shown = len(grid.interactions)
    whole = shown == grid.all_interactions
    return "" if whole else f" The {shown} largest of {count(grid.all_interactions)}"


_FOOTNOTES = (
    "The harness of an arm is everything that was declared of it but its name and its model.",
    "tau-b is 1 if two models order the harnesses alike and −1 if they reverse the order. "
    "With fewer than four harnesses there is none. Kendall, M. G. (1945). Biometrika 33, 239-251.",
    "An interaction is the difference between two harnesses with one model less that with another, "
    "over the instances of all four arms. Its interval is from resampling instances, and is not "
    "adjusted for the number of interactions: all are exploratory.",
)
