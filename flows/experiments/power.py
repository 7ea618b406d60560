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
    _check(question)
    if earlier is not None and discordance is not None:
        raise UsageError("give either --discordance or --from, not both")
    built = report_files.read(Lake.existing(lake_path), earlier) if earlier else None
    found = _assume(discordance, built, correlation)
    try:
        rows = answer(question, found)
    except ValueError as error:
        raise UsageError(str(error)) from None
    out().print(_table(question, found, rows))
    if built:
        for section in built.sections:
            for line in section.advice:
                terminal.show(line)


def answer(question: Question, found: Assumption) -> list[Row]:
    """Return one row for every number of repeats, up to the number in the question.

    Raises:
        ValueError: a share or a probability is out of range.
    """
    return [_row(question, found, repeats) for repeats in range(1, question.repeats + 1)]


def _row(question: Question, found: Assumption, repeats: int) -> Row:
    from reports.statistics.power import (
        Design,
        detection_power,
        instances_needed,
        smallest_detectable_difference,
    )

    design = Design(
        instances=question.instances or 0,
        repeats=repeats,
        discordance=found.discordance,
        difference=question.difference or 0.0,
        correlation=found.correlation,
    )
    if question.difference is None:
        smallest = smallest_detectable_difference(design, question.power)
        return Row(repeats, question.instances, smallest, question.power)
    return Row(
        repeats,
        instances_needed(design, question.power),
        question.difference,
        detection_power(design) if question.instances else None,
    )


def _check(question: Question) -> None:
    if question.instances is None and question.difference is None:
        raise UsageError(
            "give --instances for the smallest difference they can show, or --difference for "
            "the instances it needs"
        )
    if question.difference is not None and question.difference <= 0:
        raise UsageError("--difference must be a share above 0, such as 0.05 (five points)")


def _assume(
    discordance: float | None, built: "Report | None", correlation: float | None
) -> Assumption:
    rate = (DISCORDANCE, "assumed") if discordance is None else (discordance, "given")
    alike = (CORRELATION, "assumed") if correlation is None else (correlation, "given")
    if built:
        rate = _earlier_discordance(built)
        if correlation is None:
            alike = _earlier_correlation(built) or alike
    return Assumption(*rate, *alike)


def _earlier_discordance(built: "Report") -> tuple[float, str]:
    from reports.format import percent, plural
    from reports.statistics.proportions import wilson_interval

    name = built.source.experiment
    if not built.comparisons:
        raise UsageError(f"experiment {name} has only one arm, so it has no discordance")
    pair = built.comparisons[0]
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


def _earlier_correlation(built: "Report") -> tuple[float, str] | None:
    """Return the correlation in an experiment's leading pair; None if its cells do not repeat."""
    split = built.split
    return None if split is None else (split.correlation, f"that of {built.source.experiment}")


def _table(question: Question, found: Assumption, rows: list[Row]) -> Table:
    from reports.format import count, percent

    table = Table(
        title=_title(question),
        title_justify="left",
        caption=_caption(question, found),
        caption_justify="left",
    )
    by_difference = question.difference is not None
    table.add_column("repeats", justify="right")
    table.add_column("instances needed" if by_difference else "instances", justify="right")
    table.add_column("cells per arm", justify="right")
    if not by_difference:
        table.add_column("smallest detectable difference", justify="right")
    elif question.instances:
        table.add_column(f"power with {count(question.instances)}", justify="right")
    for row in rows:
        instances = "over a million" if row.instances is None else count(row.instances)
        cells = "" if row.instances is None else count(row.instances * row.repeats)
        values = [str(row.repeats), instances, cells]
        if not by_difference:
            values.append("none" if row.difference is None else _points(row.difference))
        elif row.power is not None:
            values.append(percent(row.power))
        table.add_row(*values)
    return table


def _title(question: Question) -> str:
    from reports.format import count, percent

    sure = f"with a power of {percent(question.power)}"
    if question.difference is None:
        return (
            f"Smallest difference that {count(question.instances or 0)} instances can show {sure}"
        )
    return f"Instances needed to show a difference of {_points(question.difference)} {sure}"


def _caption(question: Question, found: Assumption) -> str:
    from reports.format import count, percent
    from reports.statistics.power import LEVEL, RUNS

    repeated = f" With repeats: in {count(RUNS)} simulated runs." * (question.repeats > 1)
    lines = [
        f"The paired test of the report, two-sided at {percent(LEVEL)}.{repeated}",
        f"Discordance {percent(found.discordance)}: {found.discordance_source}.",
    ]
    if question.repeats > 1:
        lines.append(
            f"Repeats of an instance correlate by {found.correlation:.2f}: "
            f"{found.correlation_source}."
        )
    return "\n".join(lines)


def _points(difference: float) -> str:
    """Return percentage points, rounded up so that the printed difference is detectable."""
    return f"{ceil(1000 * difference - 1e-9) / 10:.1f} points"
