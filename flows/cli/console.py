"""Terminal output of the commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flows.display.terminal import UNBOUNDED, out, show, show_paragraph
from flows.display.terminal import columns as aligned
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.format import plural

if TYPE_CHECKING:
    from flows.formats.imported_arms import Summary
    from reports.rendering.sections import ReportDocument
    from reports.rendering.sections import Table as Part
    from reports.steps import StepView
    from reports.types import Report


ID_CHARACTERS = 12
"""Length of the prefix of an attempt's id that identifies it."""


_CAN_BE_DIAGNOSED = ("unresolved", "no_patch", "patch_failed", "timeout")


def report(lake: Lake, built: "Report", compared: tuple[str, str] | None = None) -> None:
    """Print a report for the terminal: arms, models, declared comparisons, the answer, the page."""
    for failed in built.audits:
        show_paragraph(
            f"Audit {failed.name} found {plural(failed.rows, 'row')}: {failed.meaning}", "bold red"
        )
    for note in built.notes:
        show_paragraph(note.text, "yellow" if note.level == "warning" else "dim")
    _print_tables(built)
    for section in built.sections:
        for line in section.brief:
            show_paragraph(line)
    show_paragraph(built.sections[0].answer, "bold")
    show(f"Report: {report_files.page_path(lake, built.source.experiment, compared)}")


def print_next_step(built: "Report") -> None:
    """Print the command that explains an unresolved attempt, or else lists all attempts."""
    for cell in built.cells:
        if cell.state in _CAN_BE_DIAGNOSED and cell.attempt_id and cell.model_calls:
            why = f"why {cell.arm} did not resolve {cell.instance_id}"
            show(f"Next: durabench diagnose {cell.attempt_id[:ID_CHARACTERS]}  # {why}")
            return
    show(f"Next: durabench status {built.source.experiment} --cells  # every attempt")


def history(lake: Lake, document: "ReportDocument") -> None:
    """Print the runs of an experiment over time, the latest first."""
    _print_tables(document)
    if answer := document.sections[0].answer:
        show(answer, "yellow")
    show(f"History: {report_files.history_path(lake, document.title)}")


def _print_tables(document: "ReportDocument") -> None:
    """Print the tables of a document that are for a terminal."""
    for section in document.sections:
        for table in section.get_tables("terminal"):
            for part in lay_out(table, out().width):
                out().print(part)


def lay_out(shown: "Part", width: int) -> list[RenderableType]:
    """Return a table of texts or, if that is too wide, its names with numbers below."""
    rows = [[str(text) for text in row] for row in shown.rows]
    table = Table(*shown.header)
    for row in rows:
        table.add_row(*map(escape, row))
    wide = Measurement.get(out(), out().options.update(max_width=UNBOUNDED), table)
    is_stacked = shown.words == 1 and wide.maximum > width
    lines: list[RenderableType] = _stack(shown.header, rows) if is_stacked else [table]
    return [*lines, shown.note] if shown.note else lines


def _stack(header: "Sequence[str]", rows: list[list[str]]) -> list[RenderableType]:
    """Return each name on a line, and its numbers except tokens on the line below."""
    columns = [n for n, name in enumerate(header) if n and name != "tokens"]
    numbers = [[row[n] for n in columns] for row in ([*header], *rows)]
    head, *below = aligned(numbers, right=range(len(columns)))
    lines = [Text(f"  {head}", style="bold")]
    for row, line in zip(rows, below, strict=True):
        lines += [Text(row[0], overflow="fold"), Text(f"  {line}")]
    return [*lines]


def step(shown: "StepView", *, full: bool = False) -> None:
    """Print one step of a trace as a line, and with `full` its complete input and output below."""
    from flows.display import steps  # imports the journal, which other commands do not need

    console = out()
    show(steps.line(shown, console.width), "bold" if full and console.is_terminal else None)
    if full and (below := steps.block(shown)):
        show(below)


def print_debug_hints(experiment: str, arm: str, lake: Lake) -> None:
    """Print the commands that show the traces of a debugging run."""
    for unit in lake.units("attempts", "*", experiment, arm):
        out().print(f"durabench trace {unit}", markup=False)


def print_imported_arms(arms: "list[Summary]", name: str) -> None:
    """Print the arms of imported attempts, one row each, and calls without a cost."""
    table = Table("arm", "stands for", "resolved", "without a result", "cost")
    for arm in arms:
        priced = f" ({arm.found - arm.unpriced} of {arm.found})" if arm.unpriced else ""
        table.add_row(
            arm.arm,
            escape(arm.label),
            f"{arm.resolved} of {arm.planned}",
            str(arm.planned - arm.found),
            _usd(arm.cost_usd) + (priced if arm.cost_usd is not None else ""),
        )
    out().print(table)
    for arm in arms:
        if arm.calls is not None:
            unpriced = [f"{i} ({n})" for i, n in arm.calls_without_cost.items()]
            out().print(
                f"{arm.arm}: {plural(arm.found, 'attempt')}, {plural(arm.calls, 'call')}, "
                f"{_usd(arm.cost_usd)}; "
                f"{plural(sum(arm.calls_without_cost.values()), 'call')} came without a cost"
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
    patches = plural(resolved, "resolved patch", "resolved patches")
    show(f"suspect: {len(in_doubt)} of {patches}")


def _usd(amount: float | None) -> str:
    return "cost unknown" if amount is None else f"${amount:,.4f}"
