"""Progress of experiments, from the cells in the lake and the unfinished attempts in the journal.

This is the data of `durabench status`; `flows.cli.status_text` prints it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from agent.errors import JournalError
from agent.journal import Progress
from agent.journal.holding import is_dead
from agent.timings import timings
from flows.display.errors import UsageError
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row
from reports.steps import FLAW_COLUMNS

if TYPE_CHECKING:
    from reports.analysis.standing import EarlyEnd, Standing

FORMAT = 1
"""Version of the JSON format. Names may be added; existing names never change their meaning."""

State = Literal[
    "done",
    "ungraded",
    "running",
    "waiting",
    "interrupted",
    "killed",
    "budget_stop",
    "infrastructure",
    "not_begun",
]
"""done: has a verdict, or ended without a patch. ungraded: solved, not graded yet. running: a
worker holds the attempt. waiting: a person has to answer. interrupted: its worker was asked to
stop. killed: its worker died, and its lease has expired or will. budget_stop, infrastructure: the
reason why the last try ended. not_begun: there is no attempt."""

STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]

_FILED: Mapping[str, State] = {
    "missing": "not_begun",
    "ungraded": "ungraded",
    "infrastructure": "infrastructure",
}
"""States of `marts.cells` that are not verdicts. A stopped attempt has its own outcome."""

_STOPPED: Mapping[str, State] = {"budget_stop": "budget_stop", "waiting": "waiting"}
"""States of stopped attempts by their outcome."""


@dataclass(frozen=True)
class CellStatus:
    """One planned cell with its current attempt."""

    arm: str
    instance_id: str
    repeat: int
    state: State
    verdict: str | None
    """resolved, unresolved, no_patch, patch_failed or timeout, if the cell is done."""
    attempt_id: str | None
    since: datetime | None
    """Start time of the attempt."""
    last_sign_of_life: datetime | None
    """For an unfinished attempt: the time of its last step or of the last renewal of its lease."""
    steps: int | None
    """Number of steps with a result; None if the attempt is only in the lake."""
    calls: int
    """Number of answered model calls."""
    cost_usd: float | None
    """Total of the known costs; None if no cost is known."""
    unpriced_calls: int
    unanswered_calls: int
    """Number of calls in flight or lost in a crash."""
    unanswered_usd: float | None
    """Maximum cost of those calls; None if it is unknown."""
    detail: str
    """Reason for the verdict, or else for the attempt's end."""
    outcome: str | None = None
    """How the attempt ended, by `attempts.outcome`; None while it runs."""
    attempt_detail: str = ""
    """Reason for the attempt's end."""
    flaws: Mapping[str, int | None] | None = None
    """Columns of `attempts` with the numbers of flawed replies; None while it runs."""
    retry: str | None = None
    """The failed request, if the cell waits for its model: `try 2 of 9 failed: timeout: …`."""
    retry_in_s: float | None = None
    """Seconds until the next try."""
    open_call_at: datetime | None = None
    """Start of the call in flight, if the cell runs."""

    @property
    def label(self) -> str:
        """Display name of the cell in progress lines; the first repeat has no number."""
        return f"{self.arm} · {self.instance_id}" + (f" #{self.repeat}" if self.repeat else "")


@dataclass(frozen=True)
class Tally:
    """Counts and totals over cells."""

    planned: int
    resolved: int
    states: Mapping[State, int]
    """Count of every state, including 0."""
    calls: int
    cost_usd: float | None
    """Total of the known costs; None if no cost of any cell is known."""
    unpriced_calls: int
    unanswered_calls: int
    unanswered_usd: float | None
    """None if the maximum cost of one of these calls is unknown."""


@dataclass(frozen=True)
class ExperimentStatus:
    """The status of one experiment."""

    experiment: str
    total: Tally
    arms: Mapping[str, Tally]
    """Tally by arm, in declared order."""
    cells: Sequence[CellStatus]
    billed_usd: float | None
    """Cost of everything ever sent under the name, including earlier attempts and lost calls; None
    if the journal is unknown, or the price of a call."""
    unbilled_calls: int
    """Number of calls ever sent with an unknown price."""
    early_end: "EarlyEnd | None"
    """The decision that ended it before all of its cells were done."""


@dataclass(frozen=True)
class StatusReading:
    """Experiments, with a note for everything that could not be read."""

    lake: str
    notes: Sequence[str]
    experiments: Sequence[ExperimentStatus]

    def of_cell(self, arm: str, instance_id: str, repeat: int) -> "StatusReading":
        """Return the same with one cell of the only experiment. Totals still cover all cells."""
        [experiment] = self.experiments
        wanted = (arm, instance_id, repeat)
        cells = [
            cell for cell in experiment.cells if (cell.arm, cell.instance_id, cell.repeat) == wanted
        ]
        return replace(self, experiments=[replace(experiment, cells=cells)])


def read(lake: Lake, names: Sequence[str]) -> StatusReading:
    """Return the progress of these experiments.

    If the journal cannot be read, a note says so, and all numbers are from the lake.

    Raises:
        ReportError: the experiment or the lake does not exist.
        InfrastructureError: a disk or object-store operation failed.
    """
    from reports.analysis.standing import read_standings  # DuckDB is slow to import

    # Read the journal before the lake: an attempt that ends in between is then in both, not in
    # neither.
    recorded, notes = _read_journal(lake, names)
    with lake.reading():
        filed = read_standings(lake.root, names)
    unknown = [
        name
        for name, attempts in recorded.items()
        if not attempts and any(row["attempt_id"] for row in filed[name].cells)
    ]
    if unknown:
        notes.append(
            f"the journal knows no attempt of {', '.join(unknown)}: these numbers are from the lake"
        )
    experiments = [_experiment(name, filed[name], recorded.get(name) or None) for name in names]
    return StatusReading(str(lake.root), notes, experiments)


def _read_journal(
    lake: Lake, names: Sequence[str]
) -> tuple[Mapping[str, Sequence[Progress]], list[str]]:
    """Return the journal's attempts by experiment, and a note if the journal is unavailable."""
    try:
        journal = existing_journal(lake)
        if journal is not None:
            return {name: journal.progress(name) for name in names}, []
        why = "this lake has no journal"
    except (JournalError, UsageError) as error:
        why = str(error)
    return {}, [
        f"{why}; running and killed attempts are not known, and what follows is from the lake"
    ]


def _experiment(
    name: str, filed: "Standing", recorded: Sequence[Progress] | None
) -> ExperimentStatus:
    attempts = defaultdict[tuple[str, str, int], list[Progress]](list)
    for progress in recorded or ():
        attempt = progress.attempt
        attempts[attempt.arm, attempt.instance_id, attempt.repeat].append(progress)
    cells = [
        _cell(row, attempts[row["arm"], row["instance_id"], row["repeat"]]) for row in filed.cells
    ]
    arms = dict.fromkeys(cell.arm for cell in cells)
    # A program whose calls were not metered has an unknown bill.
    unmetered = any(cell.attempt_id and cell.cost_usd is None and not cell.calls for cell in cells)
    is_billed = recorded is not None and not unmetered
    return ExperimentStatus(
        name,
        _tally(cells),
        {arm: _tally(cell for cell in cells if cell.arm == arm) for arm in arms},
        cells,
        _sum(progress.billed_usd for progress in recorded or ()) if is_billed else None,
        sum(progress.unbilled_calls for progress in recorded or ()),
        filed.early_end,
    )


def _sum(amounts: Iterable[float | None]) -> float | None:
    """Return the sum, or None if an amount is unknown."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _tally(cells: Iterable[CellStatus]) -> Tally:
    counted = list(cells)
    states = Counter(cell.state for cell in counted)
    costs = [cell.cost_usd for cell in counted if cell.cost_usd is not None]
    begun = any(cell.attempt_id for cell in counted)
    return Tally(
        planned=len(counted),
        resolved=sum(cell.verdict == "resolved" for cell in counted),
        states={state: states[state] for state in STATES},
        calls=sum(cell.calls for cell in counted),
        cost_usd=sum(costs) if costs or not begun else None,
        unpriced_calls=sum(cell.unpriced_calls for cell in counted),
        unanswered_calls=sum(cell.unanswered_calls for cell in counted),
        unanswered_usd=_sum(cell.unanswered_usd for cell in counted),
    )


def _cell(row: Row, attempts: Sequence[Progress]) -> CellStatus:
    """Return a cell's status from the lake, unless the journal has a more recent attempt."""
    filed = next(
        (progress for progress in attempts if progress.attempt.attempt_id == row["attempt_id"]),
        None,
    )
    is_open = row["state"] in ("missing", "stopped", "infrastructure")
    running = [
        progress
        for progress in attempts
        if _is_running(progress) and (is_open or progress is not filed)
    ]
    if running:
        return _make_unfinished(row, running[-1], "running", "")
    state: State = _FILED.get(row["state"], "done")
    if row["state"] == "stopped":
        state = _STOPPED.get(row["outcome"], "interrupted")
    begun = [progress for progress in attempts if progress.worker is not None]
    latest = filed or max(begun, key=lambda progress: _last_sign(progress) or _NEVER, default=None)
    if is_open and latest is not None and not (filed and filed.has_ended):
        if latest.lease_left_s is not None:
            return _make_unfinished(row, latest, "killed", "")
        if filed is None:
            return _make_unfinished(row, latest, "interrupted", "")
        return _make_unfinished(row, latest, state, row["detail"])
    since = row["started_at_utc"]
    return CellStatus(
        arm=row["arm"],
        instance_id=row["instance_id"],
        repeat=row["repeat"],
        state=state,
        verdict=row["state"] if state == "done" else None,
        attempt_id=row["attempt_id"],
        since=since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since,
        last_sign_of_life=None,
        steps=None if filed is None or filed.is_pruned else filed.steps,
        calls=row["model_calls"] or 0,
        cost_usd=row["cost_usd"],
        unpriced_calls=row["unpriced_calls"] or 0,
        unanswered_calls=filed.unanswered_calls if filed else 0,
        unanswered_usd=filed.unanswered_usd if filed else 0.0,
        detail=row["detail"],
        outcome=row["outcome"],
        attempt_detail=row["attempt_detail"],
        flaws={name: row[name] for name in FLAW_COLUMNS} if row["attempt_id"] else None,
    )


def _make_unfinished(row: Row, attempt: Progress, state: State, detail: str) -> CellStatus:
    is_priced = attempt.unpriced_calls < attempt.calls
    waits = state == "running" and attempt.retry_in_s is not None
    if not attempt.calls:  # a program without metered calls has an unknown cost
        is_priced = row["attempt_id"] != attempt.attempt.attempt_id or row["cost_usd"] is not None
    return CellStatus(
        arm=row["arm"],
        instance_id=row["instance_id"],
        repeat=row["repeat"],
        state=state,
        verdict=None,
        attempt_id=attempt.attempt.attempt_id,
        since=attempt.first_step_at,
        last_sign_of_life=_last_sign(attempt),
        steps=attempt.steps,
        calls=attempt.calls,
        cost_usd=attempt.cost_usd if is_priced else None,
        unpriced_calls=attempt.unpriced_calls,
        unanswered_calls=attempt.unanswered_calls,
        open_call_at=attempt.open_call_at if state == "running" else None,
        unanswered_usd=attempt.unanswered_usd,
        detail=detail,
        retry=attempt.retry if waits else None,
        retry_in_s=max(0.0, attempt.retry_in_s or 0.0) if waits else None,
    )


def _is_running(attempt: Progress) -> bool:
    """Return True if a worker holds the attempt and is not known to be dead."""
    if attempt.worker is None or attempt.lease_left_s is None or attempt.lease_left_s <= 0:
        return False
    return not is_dead(attempt.worker)


def _last_sign(attempt: Progress) -> datetime | None:
    """Return the time of the last sign of life, or None if nothing was recorded."""
    signs = [time for time in (attempt.first_step_at, attempt.last_step_at) if time is not None]
    if attempt.lease_left_s is not None:
        # A worker's lease can be longer than this program's, but no sign of life is in the future.
        renewed_s = min(0.0, attempt.lease_left_s - timings().lease_s)
        signs.append(attempt.now + timedelta(seconds=renewed_s))
    return max(signs, default=None)


_NEVER = datetime.fromtimestamp(0, UTC)


def as_json(reading: StatusReading, name: str | None) -> Row:
    """Return the JSON of `--json`: one experiment with its cells, or a summary of all."""
    head = {"format": FORMAT, "lake": reading.lake, "notes": list(reading.notes)}
    if name is None:
        return {**head, "experiments": [_summary(experiment) for experiment in reading.experiments]}
    [experiment] = reading.experiments
    arms = [{"arm": arm, **asdict(tally)} for arm, tally in experiment.arms.items()]
    cells = [asdict(cell) for cell in experiment.cells]
    for cell in cells:
        for column in ("since", "last_sign_of_life", "open_call_at"):
            cell[column] = cell[column] and cell[column].isoformat(timespec="seconds")
    return {**head, **_summary(experiment), "arms": arms, "cells": cells}


def _summary(experiment: ExperimentStatus) -> Row:
    return {
        "experiment": experiment.experiment,
        **asdict(experiment.total),
        "billed_usd": experiment.billed_usd,
        "unbilled_calls": experiment.unbilled_calls,
        "early_end": experiment.early_end and asdict(experiment.early_end),
    }
