"""Statistical power of a planned experiment: `durabench power`."""

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from rich.table import Table

from flows.display import terminal
from flows.display.errors import UsageError
from flows.display.terminal import out
from flows.storage import report_files
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from reports.types import Report

DISCORDANCE = 0.2
"""Default discordance if neither a rate nor an earlier run is given."""

CORRELATION = 0.5
"""Default intra-instance correlation of repeats: half of the variance between two arms is due to
the instance, half is chance."""


@dataclass(frozen=True)
class Question:
    """A planned experiment and the desired power."""

    instances: int | None
    repeats: int
    difference: float | None
    """None asks for the smallest detectable difference."""
    power: float


@dataclass(frozen=True)
class Assumption:
    """Assumptions behind the answer, each with its source."""

    discordance: float
    discordance_source: str
    correlation: float
    correlation_source: str


@dataclass(frozen=True)
class Row:
    """The answer for one number of repeats."""

    repeats: int
    instances: int | None
    """None if a million instances would not be enough."""
    difference: float | None
    """None if even the largest possible difference would be missed."""
    power: float | None
    """Power with the given number of instances; None if none was given."""


def show(
    question: Question,
    discordance: float | None,
    earlier: str | None,
    correlation: float | None,
    lake_path: str | None,
) -> None:
    """Print the answer with all its assumptions.

    `earlier` is the experiment that supplies values that are not given.

    Raises:
        UsageError: the question is incomplete or invalid.
        ReportError: the experiment or the lake does not exist.
    """
    if question.instances is None and question.difference is None:
        raise UsageError(
            "give --instances for the smallest difference they can show, or --difference for "
            "the instances it needs"
        )
    if question.difference is not None and question.difference <= 0:
        raise UsageError("--difference must be a share above 0, such as 0.05 (five points)")
    if earlier is not None and discordance is not None:
        raise UsageError("give either --discordance or --from, not both")
    report = report_files.read(Lake.existing(lake_path), earlier) if earlier else None
    rate = (DISCORDANCE, "assumed") if discordance is None else (discordance, "given")
    alike = (CORRELATION, "assumed") if correlation is None else (correlation, "given")
    if report:
        rate = _measure_discordance(report)
        if correlation is None and report.split is not None:
            alike = (report.split.correlation, f"that of {report.source.experiment}")
    assumption = Assumption(*rate, *alike)
    try:
        rows = answer(question, assumption)
    except ValueError as error:
        raise UsageError(str(error)) from None
    out().print(_table(question, assumption, rows))
    if report:
        for section in report.sections:
            for line in section.advice:
                terminal.show(line)


def answer(question: Question, assumption: Assumption) -> list[Row]:
    """Return one row for every number of repeats, up to the number in the question.

    Raises:
        ValueError: a share or a probability is out of range.
    """
    from reports.statistics.power import (
        Design,
        detection_power,
        instances_needed,
        smallest_detectable_difference,
    )

    rows = []
    for repeats in range(1, question.repeats + 1):
        design = Design(
            instances=question.instances or 0,
            repeats=repeats,
            discordance=assumption.discordance,
            difference=question.difference or 0.0,
            correlation=assumption.correlation,
        )
        if question.difference is None:
            smallest = smallest_detectable_difference(design, question.power)
            rows.append(Row(repeats, question.instances, smallest, question.power))
        else:
            needed = instances_needed(design, question.power)
            power = detection_power(design) if question.instances else None
            rows.append(Row(repeats, needed, question.difference, power))
    return rows


def _measure_discordance(report: "Report") -> tuple[float, str]:
    """Return the discordance of the leading pair of an experiment, and its source."""
    from reports.format import percent, plural
    from reports.statistics.proportions import wilson_interval

    name = report.source.experiment
    if not report.comparisons:
        raise UsageError(f"experiment {name} has only one arm, so it has no discordance")
    pair = report.comparisons[0]
    table = pair.table
    if not table.discordant:
        raise UsageError(
            f"in experiment {name}, {pair.baseline} and {pair.candidate} agree on all of "
            f"{plural(table.pairs, 'pair')}: give --discordance"
        )
    interval = wilson_interval(table.discordant, table.pairs)
    return (
        table.discordant / table.pairs,
        f"{table.discordant} of {plural(table.pairs, 'pair')} of {pair.baseline} and "
        f"{pair.candidate} in {name}, 95 % interval {percent(interval.low)} to "
        f"{percent(interval.high)}",
    )


def _table(question: Question, assumption: Assumption, rows: list[Row]) -> Table:
    from reports.estimates import LEVEL
    from reports.format import count, percent, plural
    from reports.statistics.power import RUNS

    sure = f"with a power of {percent(question.power)}"
    is_given = question.difference is not None
    instances = plural(question.instances or 0, "instance")
    title = f"Smallest difference that {instances} can show {sure}"
    if question.difference is not None:
        points = _points(question.difference)
        title = f"Instances needed to show a difference of {points} {sure}"
    repeated = f" With repeats: in {count(RUNS)} simulated runs." * (question.repeats > 1)
    caption = [
        f"The paired test of the report, two-sided at {percent(LEVEL)}.{repeated}",
        f"Discordance {percent(assumption.discordance)}: {assumption.discordance_source}.",
    ]
    if question.repeats > 1:
        caption.append(
            f"Repeats of an instance correlate by {assumption.correlation:.2f}: "
            f"{assumption.correlation_source}."
        )
    table = Table(
        title=title,
        title_justify="left",
        caption="\n".join(caption),
        caption_justify="left",
    )
    table.add_column("repeats", justify="right")
    table.add_column("instances needed" if is_given else "instances", justify="right")
    table.add_column("cells per arm", justify="right")
    if not is_given:
        table.add_column("smallest detectable difference", justify="right")
    elif question.instances:
        table.add_column(f"power with {count(question.instances)}", justify="right")
    for row in rows:
        instances = "over a million" if row.instances is None else count(row.instances)
        cells = "" if row.instances is None else count(row.instances * row.repeats)
        values = [str(row.repeats), instances, cells]
        if not is_given:
            values.append("none" if row.difference is None else _points(row.difference))
        elif row.power is not None:
            values.append(percent(row.power))
        table.add_row(*values)
    return table


def _points(difference: float) -> str:
    """Return percentage points, rounded up so that the printed difference is detectable."""
    return f"{ceil(1000 * difference - 1e-9) / 10:.1f} points"
