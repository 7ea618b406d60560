"""The output of `durabench status`: one line for an experiment, an arm, an attempt or a cell."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from textwrap import wrap

from rich.cells import cell_len

from agent.errors import JournalError
from flows.cli.console import ID_CHARACTERS
from flows.display.errors import UsageError
from flows.display.terminal import columns, fit, out
from flows.display.terminal import show as say
from flows.experiments import status
from flows.experiments.status import CellStatus, ExperimentStatus, State, Tally
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake
from reports.steps import describe_flaws

_IN_WORDS: dict[State, str] = {
    "done": "done",
    "ungraded": "to be graded",
    "running": "running",
    "waiting": "waits for a person",
    "interrupted": "interrupted",
    "killed": "killed",
    "budget_stop": "stopped by a budget",
    "infrastructure": "infrastructure",
    "not_begun": "not begun",
}

_OPEN: tuple[State, ...] = (
    *("running", "waiting", "interrupted", "killed", "budget_stop", "infrastructure"),
)
"""States whose cells are listed by default."""


def show(name: str | None, lake_path: str | None, *, cells: bool, as_json: bool) -> None:
    """Print the progress of one experiment or of all. `name` may also be an attempt id.

    Raises:
        ReportError: the experiment or the lake does not exist.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.lake import list_experiments

    lake = Lake.existing(lake_path)
    with lake.reading():
        experiments = list_experiments(lake.root)
    cell = _find_cell(lake, name) if name is not None and name not in experiments else None
    progress = status.read(lake, experiments if name is None else [cell[0] if cell else name])
    if cell:
        progress = progress.of_cell(*cell[1:])
    if as_json:
        say(json.dumps(status.as_json(progress, name), indent=1))
        return
    for note in progress.notes:
        say(note)
    if name is None:
        rows = [[part.experiment, summary(part.total)] for part in progress.experiments]
        _print_lines(columns(rows) if rows else [])
        return
    [experiment] = progress.experiments
    say(f"{experiment.experiment}: {summary(experiment.total)}{_format_bill(experiment)}")
    if end := experiment.early_end:
        say(
            f"ended early: {end.leader} resolves more than {end.other}; {end.cells_not_needed:,} "
            f"of {end.cells_planned:,} planned cells were not needed"
        )
    _print_arms(experiment)
    _print_cells([c for c in experiment.cells if cells or cell or c.state in _OPEN])


def _find_cell(lake: Lake, prefix: str) -> tuple[str, str, str, int] | None:
    """Return experiment, arm, instance and repeat of the only attempt whose id has this prefix."""
    cells = {
        (experiment, arm, row["instance_id"], row["repeat"])
        for experiment, arm, unit in lake.places("attempts", f"{prefix}*")
        for row in lake.read("attempts", experiment, arm, unit)
    }
    with suppress(JournalError, UsageError):
        journal = existing_journal(lake)
        cells |= {
            (attempt.experiment, attempt.arm, attempt.instance_id, attempt.repeat)
            for attempt in (journal.find(prefix) if journal else ())
        }
    return cells.pop() if len(cells) == 1 else None


def summary(tally: Tally) -> str:
    """Return done cells, other states, calls and cost in one line."""
    from reports.format import plural

    done = tally.states["done"]
    parts = [f"{done} of {plural(tally.planned, 'cell')} done ({tally.resolved} resolved)"]
    parts += [
        f"{number} {_IN_WORDS[state]}"
        for state, number in tally.states.items()
        if number and state != "done"
    ]
    return f"{', '.join(parts)}; {plural(tally.calls, 'call')}, {_cost(tally)}"


def _cost(of: Tally | CellStatus) -> str:
    from reports.format import usd

    if of.cost_usd is None:
        return "cost unknown"
    return usd(of.cost_usd, at_least=of.unpriced_calls > 0)


def _format_bill(experiment: ExperimentStatus) -> str:
    """Return the billed amount if it exceeds the cost of the cells, else an empty string."""
    from reports.format import plural, usd

    total, billed = experiment.total, experiment.billed_usd
    unknown, cost = experiment.unbilled_calls, total.cost_usd or 0.0
    if unknown > total.unpriced_calls:
        rest = f"{plural(unknown - total.unpriced_calls, 'call')} of unknown price"
        return f"; besides, {rest}: in flight, lost or of earlier attempts"
    if billed is None or billed <= cost + 1e-9:
        return ""
    return f", {usd(billed)} billed with calls in flight or lost and earlier attempts"


def _print_arms(experiment: ExperimentStatus) -> None:
    states = [
        state
        for state in status.STATES
        if state in ("done", "not_begun") or experiment.total.states[state]
    ]
    head = ["arm", "planned", "resolved", *(_IN_WORDS[state] for state in states), "calls", "cost"]
    rows = [head]
    for arm, tally in experiment.arms.items():
        counts = [tally.planned, tally.resolved, *(tally.states[state] for state in states)]
        rows.append([arm, *map(str, counts), f"{tally.calls:,}", _cost(tally)])
    _print_lines(columns(rows, right=range(1, len(head))))


def _print_cells(cells: Sequence[CellStatus]) -> None:
    """Print a line per cell. On a narrow terminal, details follow on further lines."""
    if not cells:
        return
    head = ["attempt", "state", "calls", "cost", "cell"]
    rows = [
        [
            (cell.attempt_id or "-")[:ID_CHARACTERS],
            cell.verdict or _IN_WORDS[cell.state],
            f"{cell.calls}",
            _cost(cell) if cell.attempt_id else "-",
            cell.label,
        ]
        for cell in cells
    ]
    details = ["", *("; ".join(_details(cell)) for cell in cells)]
    width = out().width
    lines = [[*row, detail] for row, detail in zip([head, *rows], details, strict=True)]
    wide = columns(lines, right=(2, 3))
    if max(map(cell_len, wide)) <= width:
        _print_lines(wide)
        return
    below = " " * (ID_CHARACTERS + 2)
    head_line, *row_lines = columns([head, *rows], right=(2, 3))
    _print_lines([head_line])
    for line, cell in zip(row_lines, cells, strict=True):
        _print_lines([line])
        for detail in _details(cell):
            _print_lines(wrap(detail, width, initial_indent=below, subsequent_indent=below))


def _details(cell: CellStatus) -> list[str]:
    """Return lines: unfinished work with its open calls, the end, the replies, the verdict."""
    parts = []
    if cell.state in ("running", "waiting", "killed", "interrupted", "budget_stop"):
        if cell.since:
            parts.append(f"since {_clock(cell.since)}")
        if cell.last_sign_of_life:
            parts.append(f"last sign of life {_clock(cell.last_sign_of_life)}")
    if cell.open_call_at:
        parts.append(f"waits for its model since {_clock(cell.open_call_at)}")
    elif cell.unanswered_calls:
        from reports.format import plural, usd

        most = cell.unanswered_usd
        bound = "of unknown price" if most is None else f"up to {usd(most)}"
        parts.append(f"{plural(cell.unanswered_calls, 'call')} without an answer, {bound}")
    waits = cell.retry and f"{cell.retry}; the next one is in {cell.retry_in_s:.0f} s"
    end = cell.outcome or ""
    if end and cell.attempt_detail.lower() != end:
        end += f": {cell.attempt_detail}"
    verdict = cell.detail if cell.detail != cell.attempt_detail or not end else ""
    flaws = describe_flaws({**cell.flaws, "model_calls": cell.calls}) if cell.flaws else ""
    work = "; ".join(filter(None, [waits, ", ".join(parts)]))
    return [" ".join(text.split()) for text in (work, end, flaws, verdict) if text]


def _clock(time: datetime) -> str:
    """Return a time in the local time zone, with the date unless it is today's."""
    local = time.astimezone()
    today = datetime.now(UTC).astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%Y-%m-%d %H:%M:%S}"


def _print_lines(lines: Iterable[str]) -> None:
    console = out()
    for line in lines:
        console.print(fit(line, console.width), markup=False, soft_wrap=True)
