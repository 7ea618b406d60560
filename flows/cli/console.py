"""Terminal output of the commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flows.display.terminal import UNBOUNDED, out, show
from flows.display.terminal import columns as aligned
from flows.storage import report_files
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from flows.formats.imported_arms import Summary
    from reports.analysis.history import History
    from reports.steps import StepView
    from reports.types import ArmSummary, Report

SHOWN_ARMS = 25
"""Number of arms that the terminal lists, best first, besides those that the answer names."""


def report(lake: Lake, built: "Report", compared: tuple[str, str] | None = None) -> None:
    """Print a report for the terminal: arms, models, declared comparisons, the answer, the page."""
    from reports.rendering.headline import headline
    from reports.rendering.leading import describe
    from reports.rendering.models import model_lines
    from reports.rendering.pairs import declared_lines

    for failed in built.audits:
        show(f"Audit {failed.name} found {failed.rows} rows: {failed.meaning}", "bold red")
    for note in built.notes:
        show(note.text, "yellow" if note.level == "warning" else "dim")
    for shown in _arms(built, out().width):
        out().print(shown)
    for line in model_lines(built):
        show(line)
    leading = describe(built)
    if leading:
        first = built.comparisons[0]
        show(f"{first.candidate} against {first.baseline} ({first.role}): {leading.summary}", "dim")
    for line in declared_lines(built):
        show(line)
    for section in built.sections:
        for line in section.brief:
            show(line)
    show(headline(built), "bold")
    show(f"Report: {report_files.page_path(lake, built.source.experiment, compared)}")


def history(lake: Lake, found: "History") -> None:
    """Print the runs of an experiment over time, the latest first."""
    from reports.rendering.history import HEADER, note, rows

    table = Table(*HEADER)
    for row in rows(found):
        table.add_row(*map(escape, row))
    out().print(table)
    if note(found):
        show(note(found), "yellow")
    show(f"History: {report_files.history_path(lake, found.name)}")


def _arms(built: "Report", width: int) -> list[RenderableType]:
    """Return the arms by rate, as a table or, if that is too wide, as names with numbers below.

    Columns of which nothing is known are left out. Of many arms, the best ones are listed and those
    that the answer may name.
    """
    from reports.format import count
    from reports.rendering.headline import named_arms
    from reports.rendering.order import ranked

    arms, named = ranked(built), named_arms(built)
    shown = [arm for place, arm in enumerate(arms) if place < SHOWN_ARMS or arm.name in named]
    columns = _columns(shown)
    table = Table("arm", *columns)
    for arm, *row in zip(shown, *columns.values(), strict=True):
        table.add_row(escape(arm.name), *row)
    wide = Measurement.get(out(), out().options.update(max_width=UNBOUNDED), table)
    lines: list[RenderableType] = [table] if wide.maximum <= width else _stacked(shown, columns)
    if len(arms) > len(shown):
        lines.append(f"and {count(len(arms) - len(shown))} more arms, all in the report")
    return lines


def _columns(arms: "Sequence[ArmSummary]") -> dict[str, list[str]]:
    """Return the columns of the table of arms, without those of which nothing is known."""
    from reports.format import percent, total
    from reports.rendering.costs import cost, cost_per_resolved

    columns = {
        "resolved": [f"{arm.resolved} of {arm.planned}" for arm in arms],
        "rate": [percent(arm.rate) for arm in arms],
        "95 % interval": [
            f"{percent(arm.interval.low)} to {percent(arm.interval.high)}" for arm in arms
        ],
    }
    if any(arm.tokens.total for arm in arms):
        columns["tokens"] = [total(arm.tokens.total, arm.tokens.is_lower_bound) for arm in arms]
    if any(arm.cost.usd is not None or arm.cost.is_unmetered for arm in arms):
        columns["cost"] = [cost(arm) for arm in arms]
        columns["per resolved"] = [cost_per_resolved(arm) for arm in arms]
    return columns


def _stacked(arms: "Sequence[ArmSummary]", columns: dict[str, list[str]]) -> list[RenderableType]:
    """Return each arm's name on a line, and its numbers on the line below."""
    numbers = {name: texts for name, texts in columns.items() if name != "tokens"}
    by_arm = zip(*numbers.values(), strict=True)
    header, *rows = aligned([[*numbers], *by_arm], right=range(len(numbers)))
    lines = [Text(f"  {header}", style="bold")]
    for arm, row in zip(arms, rows, strict=True):
        lines += [Text(arm.name, overflow="fold"), Text(f"  {row}")]
    return [*lines]


def step(shown: "StepView", *, full: bool = False) -> None:
    """Print one step of a trace as a line, and with `full` its complete input and output below."""
    from flows.display import steps  # imports the journal, which other commands do not need

    console = out()
    show(steps.line(shown, console.width), "bold" if full and console.is_terminal else None)
    if full and (below := steps.block(shown)):
        show(below)


def debugged(experiment: str, arm: str, lake: Lake) -> None:
    """Print the commands that show the traces of a debugging run."""
    for unit in lake.units("attempts", "*", experiment, arm):
        out().print(f"durabench trace {unit}", markup=False)


def imported_arms(arms: "list[Summary]", name: str) -> None:
    """Print the arms of imported attempts, one row each, and calls without a cost."""
    table = Table("arm", "stands for", "resolved", "without a result", "cost")
    for arm in arms:
        known = f" ({arm.found - arm.unpriced} of {arm.found})" if arm.unpriced else ""
        table.add_row(
            arm.arm,
            escape(arm.label),
            f"{arm.resolved} of {arm.planned}",
            str(arm.planned - arm.found),
            _usd(arm.cost_usd) + (known if arm.cost_usd is not None else ""),
        )
    out().print(table)
    for arm in arms:
        if arm.calls is not None:
            unpriced = [f"{i} ({n})" for i, n in arm.calls_without_cost.items()]
            out().print(
                f"{arm.arm}: {arm.found} attempts, {arm.calls} calls, {_usd(arm.cost_usd)}; "
                f"{sum(arm.calls_without_cost.values())} calls came without a cost"
                + (f": {', '.join(unpriced)}" if unpriced else ""),
                markup=False,
            )
    out().print(f"durabench report {name}", markup=False)


def print_suspects(report: "Report") -> None:
    """Print the resolved cells that the audit doubts, each with its reasons."""
    in_doubt = [cell for cell in report.cells if cell.is_suspect]
    for cell in in_doubt:
        show(f"suspect  {cell.instance_id}  {'; '.join(cell.audit_reasons)}", "yellow")
    resolved = sum(cell.state == "resolved" for cell in report.cells)
    show(f"{len(in_doubt)} of {resolved} resolved patches are suspect")


def _usd(amount: float | None) -> str:
    return "cost unknown" if amount is None else f"${amount:,.4f}"
