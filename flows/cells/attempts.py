"""The Prefect tasks of a cell: an arm solves it, its patch is graded, and graded again."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from agent import models
from agent.arms import ARMS
from agent.errors import InfrastructureError, JournalError, Waiting, one_line
from agent.journal import Journal, Lease, Limit, RecordedStep
from agent.journal.holding import check_free, hold_lease
from agent.models.pacing import Pace, Sending
from agent.models.retry import Retry
from agent.session.limits import get_covered_s
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.session.steps import Step, from_record
from agent.types import Outcome
from eval.audit import AuditedVerdict
from flows.cells import judging
from flows.cells.judging import Verdict
from flows.experiments import cell_state, records, workspaces
from flows.experiments.brake import say_retry
from flows.experiments.cell_state import is_solved
from flows.experiments.cells import Cell, Submission
from flows.experiments.keys import attempt_id_of, attempt_key, is_cached, origins
from flows.experiments.selective import alone_in_folder, origin_of, reuse_of
from flows.experiments.stop import Stop
from flows.server.caching import cache_permanently, result_of
from flows.server.events import announce_waiting
from flows.server.logs import attempt_line, brief, run_log, step_log
from flows.storage.files import make_readable
from flows.storage.journals import blobs, open_journal
from flows.storage.lake import Lake, Row
from flows.storage.outputs import write_output
from reports.format import plural


@cache_permanently(
    "evaluation", "{submission.label}", lambda parameters: parameters["submission"].verdict_key
)
async def evaluate(submission: Submission, lake: Lake) -> State[list[str]]:
    """Grade a submission. Return experiment, arm and unit of the row, in a state with the verdict.

    Raises:
        InfrastructureError: the patch could not be graded; recorded, never cached.
    """
    line, where = await judging.evaluate(submission, lake)
    return Completed(message=line, data=where)


@cache_permanently(
    "audit", "{submission.label}, again", lambda parameters: parameters["submission"].audit_key
)
async def grade_again(
    submission: Submission, lake: Lake, where: list[str]
) -> State[AuditedVerdict | None]:
    """Grade a submission with a recorded verdict again. Return the audited verdict in a state.

    Raises:
        InfrastructureError: the second grading failed; never cached.
    """
    line, verdict = await judging.grade_again(submission, lake, where)
    return Completed(message=line, data=verdict)


async def grade_submission(submission: Submission, lake: Lake, *, twice: bool) -> Verdict:
    """Return the verdict for a submission as `judging.grade_once` does, by task runs."""
    first = partial(result_of, evaluate, lake, submission, lake)
    second = partial(result_of, grade_again, lake, submission, lake)
    return await judging.grade_once(submission, lake, twice=twice, first=first, second=second)


on_step: ContextVar[Callable[[Cell, Step], None]] = ContextVar(
    "on_step", default=lambda cell, step: None
)
"""Callback after every step of an attempt; set by code that shows progress."""

on_text: ContextVar[Callable[[str], None] | None] = ContextVar("on_text", default=None)
"""Callback for texts of models while they are generated; set by a terminal that shows them."""

_SILENT_RETRIES = 2
"""Failed requests of a call that are not printed: most failures are over by then."""

_OF_THE_PROGRAM = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that depend on nothing outside the program."""


@cache_permanently("attempt", "{cell.label}", lambda parameters: attempt_key(parameters["cell"]))
async def attempt(cell: Cell, lake: Lake, stop: Stop | None = None) -> State[str]:
    """Solve a cell, resuming an earlier run of it. Return the attempt id, in a state.

    Steps are written to the journal as they happen, rows to the lake when the attempt ends. `stop`
    is the stop request of the run, if the run has one.

    Raises:
        InfrastructureError: the attempt cannot continue now; recorded, never cached.
        Interrupted: the operator asked to stop.
        LeaseHeld: another run is working on the cell.
        Waiting: a person has not answered yet; recorded, never cached.
    """
    stop = stop or Stop()
    stop.check()
    journal = await asyncio.to_thread(open_journal, lake)
    attempt_id = attempt_id_of(cell)
    await asyncio.to_thread(journal.start, records.get_journal_attempt(cell, attempt_id))
    while True:
        try:
            async with hold_lease(journal, attempt_id) as lease:
                row = await _LeasedAttempt(cell, lake, journal, lease, stop).finish()
                return Completed(message=brief(row["outcome"], row), data=attempt_id)
        except Waiting as error:
            wait = await asyncio.to_thread(journal.inbox(attempt_id).wait)
            assert wait is not None, "the attempt has stated it"
            if wait.is_answered:
                continue  # while the lease was held, so that no other run resumed the attempt
            await announce_waiting(cell, wait)
            return Failed(name="Waiting", message=str(error), data=error)


@dataclass(frozen=True)
class _LeasedAttempt:
    """The attempt at a cell whose lease this process holds."""

    cell: Cell
    lake: Lake
    journal: Journal
    lease: Lease
    stop: Stop
    removed: set[str] = field(default_factory=set)
    """Refs and files that were removed from git before the agent saw it."""

    async def finish(self) -> Row:
        """Resume the attempt and write its rows. Return its row of `attempts`."""
        if row := await asyncio.to_thread(self._read_final_row):
            return row
        try:
            outcome = await self._resume()
        except Exception as error:
            await self._write(cell_state.Interruption.of(error))
            raise
        return await self._write(outcome)

    def _read_final_row(self) -> Row | None:
        """Return the row of an attempt that has ended and was written; it is final."""
        where = (*self.cell.partition, self.lease.attempt_id)
        missing = cell_state.list_missing_tables(self.cell, self.lease.attempt_id, self.lake)
        is_pruned = self.journal.pruned_at(self.lease.attempt_id) is not None
        if missing and is_pruned:
            raise InfrastructureError(
                f"attempt {self.lease.attempt_id} has ended, but its row in `{missing[0]}` is gone "
                f"from {self.lake.root} and its steps were pruned from the journal: restore the "
                "row from a copy, or run under another --name, which buys everything again",
                retryable=False,
            )
        ended = self.journal.outcome(self.lease.attempt_id)
        if missing or (ended is None and not is_pruned):
            return None
        [row] = self.lake.read("attempts", *where)
        is_final = is_pruned or row["outcome"] == json.loads(ended or "{}").get("status")
        return row if is_final else None

    async def _resume(self) -> Outcome:
        """Return the recorded outcome, or replay the arm over the recorded steps."""
        journal, attempt_id = self.journal, self.lease.attempt_id
        ended = await asyncio.to_thread(journal.outcome, attempt_id)
        if ended is not None:
            return cell_state.from_text(ended)
        wait = await asyncio.to_thread(journal.inbox(attempt_id).wait)
        if wait is not None and not wait.is_answered:
            raise Waiting.for_a(wait.wanted)
        recorded = await asyncio.to_thread(journal.steps, attempt_id)
        answered = sum(step.result is not None for step in recorded)
        self._log_start(answered)
        try:
            outcome = await self._replay(recorded)
        except InfrastructureError:
            self.stop.check()  # the signal that stops a worker also ends the programs of its cells
            raise
        except _OF_THE_PROGRAM as error:
            if not await asyncio.to_thread(self._has_failed_before, error, answered):
                raise
            outcome = Outcome("gave_up", "", f"failed twice in the same way: {one_line(error)}")
        await asyncio.to_thread(journal.end, self.lease, cell_state.to_text(outcome))
        return outcome

    def _log_start(self, recorded_steps: int) -> None:
        model = self.cell.experiment.model_of(self.cell.arm)
        with_model = f" with {records.model_name(model)}" if model else ""
        steps = plural(recorded_steps, "recorded step")
        resumed = f", resumes after {steps}" if recorded_steps else ""
        run_log().info(
            "%s",
            f"{self.cell.label}: attempt {self.lease.attempt_id} of agent {self.cell.arm.agent}"
            f"{with_model}, {self.cell.place.environment}{resumed}",
        )

    async def _replay(self, recorded: Sequence[RecordedStep]) -> Outcome:
        """Run the arm in a session whose recorded steps answer."""
        cell, journal, attempt_id, stop = self.cell, self.journal, self.lease.attempt_id, self.stop
        experiment, arm = cell.partition
        accounts = {"attempt": attempt_id, "arm": f"{experiment}/{arm}", "experiment": experiment}
        budgets = tuple(
            Limit(kind, accounts[kind], budget.usd, budget.calls)
            for kind, budget in cell.experiment.budgets.items()
        )
        reuse = await asyncio.to_thread(reuse_of, journal, attempt_id)
        log = JournalLog(
            journal, self.lease, blobs(self.lake), recorded, budgets, stop.sleep, reuse
        )
        origin = await asyncio.to_thread(origin_of, journal, attempt_id)
        places = workspaces.AttemptWorkspaces(
            cell.instance, cell.place, attempt_id, journal.id, origin, removed=self.removed
        )
        show, note = on_step.get(), step_log()

        def report(step: Step) -> None:
            note(step)
            show(cell, step)

        async with Session.start(
            attempt_id=attempt_id,
            models=self._build_models(),
            workspaces=places.as_recorded(recorded),
            log=log,
            on_step=report,
            may_go_on=stop.check,
            limit_s=cell.options.time_limit_s,
            origins=origins(cell),
            turn_end=stop.turn_end,
            on_output=partial(write_output, self.lake, experiment, attempt_id),
        ) as session:
            return await ARMS[cell.arm.agent].solve(cell.task, session, cell.options)

    def _build_models(self) -> dict[str, models.Model]:
        """Return the model of each role. Roles without a separate model share one."""
        cell, stop = self.cell, self.stop
        default = cell.experiment.model_of(cell.arm)
        if default is None:
            return {}
        pace = Pace(self.journal, cell.experiment.rate_limits, stop.sleep)
        sending = Sending(stop.check, stop.sleep, pace, on_text.get(), self._note_retry)
        return {
            role: models.build(spec, cell.task, cell.seed, sending)
            for role, spec in cell.arm.options.models(default).items()
        }

    async def _note_retry(self, retry: Retry) -> None:
        """Note in the journal, and print, that a model does not answer."""
        text = make_readable(f"try {retry.failed} of {retry.most} failed: {retry.reason}")
        with suppress(JournalError):  # the next step raises it
            note = self.journal.note_retry
            await asyncio.to_thread(note, self.lease, text, retry.wait_s)
        if retry.failed > _SILENT_RETRIES:
            say_retry(self.cell.label, f"{text}; the next one is in {retry.wait_s:.0f} s")

    async def _write(self, outcome: Outcome | cell_state.Interruption) -> Row:
        """Write the rows of the attempt. Return its row of `attempts`."""
        record = await asyncio.to_thread(self._read_record, outcome)
        # Only the lease holder writes rows: a run that lost its lease must not overwrite its
        # successor's.
        await asyncio.to_thread(self.journal.check, self.lease)
        row = records.write(self.lake, record)
        if record.git_removed:
            names = ", ".join(record.git_removed)
            run_log().info("%s: removed from git before the work: %s", self.cell.label, names)
        run_log().info("%s: %s", self.cell.label, attempt_line(row, len(record.steps)))
        return row

    def _read_record(self, outcome: Outcome | cell_state.Interruption) -> records.AttemptRecord:
        attempt_id = self.lease.attempt_id
        recorded = self.journal.steps(attempt_id)
        registered = self.journal.attempt(attempt_id)
        assert registered is not None, "it is held"
        # A journal of an old release has no tenure of the first run of the attempt.
        tenures = self.journal.tenures(attempt_id)
        starts = [tenures[0].began_at, *(step.started_at for step in recorded if not step.copied)]
        return records.AttemptRecord(
            attempt_id,
            self.cell,
            outcome,
            [from_record(step) for step in recorded if step.result is not None],
            self.journal.account(attempt_id).billed_usd,
            min(starts),
            get_covered_s(recorded),
            registered.parent_id,
            frozenset((step.scope, step.seq) for step in recorded if step.copied),
            tuple(sorted(self.removed)),
        )

    def _has_failed_before(self, error: Exception, answered: int) -> bool:
        """Return True if the last run ended with the same error, and this one got no further.

        The recorded steps lead there, so every later run would end in the same way.
        """
        steps = self.journal.steps(self.lease.attempt_id)
        where = (*self.cell.partition, self.lease.attempt_id)
        if sum(step.result is not None for step in steps) > answered:
            return False
        if not answered or not self.lake.has("attempts", *where):
            return False
        [row] = self.lake.read("attempts", *where)
        before = cell_state.Interruption.of(error)
        return (row["outcome"], row["detail"]) == (before.status, make_readable(before.detail))


async def solve_only(cell: Cell, lake: Lake, *, stop: Stop) -> str:
    """Solve a cell without grading it, and the cell that it derives from. Return the attempt id.

    Raises:
        InfrastructureError, BudgetExhausted, Interrupted: a later run resumes from there.
        LeaseHeld: another run is working on the cell.
        Waiting: a person has not answered yet.
    """
    async with AsyncExitStack() as alone:
        where = (lake, *cell.partition)
        if not await asyncio.to_thread(is_cached, "attempt", attempt_key(cell), *where):
            if cell.base is not None and not await asyncio.to_thread(is_solved, cell.base, lake):
                await solve_only(cell.base, lake, stop=stop)
            journal = await asyncio.to_thread(open_journal, lake)
            # The task would raise LeaseHeld as well, but count as failed.
            await check_free(journal, attempt_id_of(cell))
            await alone.enter_async_context(alone_in_folder(cell, journal))
        attempt_id = await result_of(attempt, lake, cell, lake, stop)
    if cell_state.list_missing_tables(cell, attempt_id, lake):
        # Prefect still has the cached result of an attempt whose rows were removed.
        attempt_id = await result_of(attempt, lake, cell, lake, stop, refresh=True)
    return attempt_id
