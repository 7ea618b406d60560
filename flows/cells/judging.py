"""Verdicts on patches: grade a submission, grade it again, and record both. It needs no Prefect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from weakref import WeakValueDictionary

from agent.errors import InfrastructureError, one_line
from agent.journal.holding import hold_lease
from agent.runner_settings import differ
from eval import grading
from eval.audit import (
    Audit,
    AuditedVerdict,
    GradingResults,
    audit,
    differences,
    get_audited_verdict,
    results,
)
from eval.types import Evaluation, EvaluationOutcome
from flows.display.errors import UsageError
from flows.experiments import records, resources, workspaces
from flows.experiments.cells import Submission
from flows.experiments.keys import is_cached, result_name
from flows.server.logs import run_log, verdict_line
from flows.storage.journals import open_journal
from flows.storage.lake import Lake, Row

_LATER_COLUMNS: Row = {**resources.UNKNOWN, "reward": None}
"""Columns of `evaluations` that rows of earlier releases lack."""

_TURNS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def evaluate(submission: Submission, lake: Lake) -> tuple[str, list[str]]:
    """Grade a submission in a fresh workspace, audit the verdict and record both.

    Return the verdict in one line, and experiment, arm and unit of the row.

    Raises:
        InfrastructureError: the patch could not be graded; recorded, never cached.
    """
    started_at = datetime.now(UTC)
    try:
        evaluation, audited = await _in_fresh_workspace(submission, "grade", lake)
    except InfrastructureError as error:
        evaluation = grading.broken(
            submission.instance,
            submission.place.environment,
            one_line(error),
            started_at=started_at,
            timeout_s=submission.timeout_s,
        )
        _record(evaluation, submission, audit(submission.instance, evaluation), lake)
        raise
    line = _record(evaluation, submission, audited, lake)
    _raise_if_broken(evaluation)
    return line, list(_where(submission))


async def grade_again(
    submission: Submission, lake: Lake, where: list[str]
) -> tuple[str, AuditedVerdict | None]:
    """Grade a submission with a recorded verdict again, and record the audited verdict.

    Return the verdict in one line, and the audited verdict.

    The first grading remains the official verdict. `where` is the result of `evaluate`.

    Raises:
        InfrastructureError: the second grading failed; never cached.
    """
    evaluation, audited = await _in_fresh_workspace(submission, "audit", lake)
    _raise_if_broken(evaluation)
    experiment, arm, unit = where
    [row] = lake.read("evaluations", experiment, arm, unit)
    first = GradingResults(
        row["outcome"], frozenset(row["fail_to_pass_success"] + row["pass_to_pass_success"])
    )
    doubts = [*audited.reasons, *differences(first, results(evaluation))]
    reasons = dict.fromkeys([*(row.get("audit_reasons") or []), *map(str, doubts)])
    verdict = get_audited_verdict(first.outcome, in_doubt=bool(reasons))
    gradings = (row.get("gradings") or 1) + 1
    row = _LATER_COLUMNS | row | records.audit_columns(verdict, reasons, gradings)
    lake.write("evaluations", experiment, arm, unit, [row])
    line = verdict_line(evaluation, verdict, reasons)
    run_log().info("%s, again: %s", submission.label, line)
    return line, verdict


@dataclass(frozen=True)
class Verdict:
    """The recorded verdict of the official tests on a patch."""

    outcome: EvaluationOutcome
    reason: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome


async def grade_once(
    submission: Submission,
    lake: Lake,
    *,
    twice: bool,
    first: Callable[..., Awaitable[list[str]]],
    second: Callable[..., Awaitable[object]],
) -> Verdict:
    """Return the recorded verdict for a submission. With `twice`, confirm it by a second grading.

    `first` runs `evaluate` on it, or returns the stored result unless that is to be refreshed.
    `second` does so with `grade_again`, given the result of `first`.

    Raises:
        InfrastructureError: the patch could not be graded.
        LeaseHeld: another run is grading a submission with the same verdict key.
    """
    async with _turn(submission, lake, twice=twice) as where:
        if where is not None:  # a task run would only find that, and costs the server 20 ms
            return await asyncio.to_thread(_take_over, submission, where, lake)
        where = await first(refresh=False)
        # The result of a verdict whose row was removed is still stored.
        is_gone = not lake.has("evaluations", *where)
        if is_gone:
            where = await first(refresh=True)
        if twice:
            await second(where, refresh=is_gone)
        return _take_over(submission, where, lake)


@asynccontextmanager
async def _turn(
    submission: Submission, lake: Lake, *, twice: bool
) -> AsyncIterator[list[str] | None]:
    """Serialize gradings with the same verdict key. Yield the recorded verdict as `_find` does."""
    key = submission.verdict_key
    async with _TURNS.setdefault(key, asyncio.Lock()):
        where = await asyncio.to_thread(_find, submission, lake, twice=twice)
        try:
            journal = None if where else await asyncio.to_thread(open_journal, lake)
        except UsageError:  # an object store without a database
            journal = None
        if journal is None:
            yield where
            return
        name = f"verdict-{key}"
        await asyncio.to_thread(journal.offer, name)
        async with hold_lease(journal, name):
            # Another program may have graded it meanwhile.
            yield await asyncio.to_thread(_find, submission, lake, twice=twice)


def _find(submission: Submission, lake: Lake, *, twice: bool) -> list[str] | None:
    """Return experiment, arm and unit of the recorded verdict on the same patch, or None."""
    place, name = (submission.experiment, submission.arm), "evaluation"
    is_graded = is_cached(name, submission.verdict_key, lake, *place)
    if not is_graded or (twice and not is_cached("audit", submission.audit_key, lake, *place)):
        return None
    result = result_name(name, submission.verdict_key)
    if unit := lake.find_compacted("evaluations", *place, result):
        return [*place, unit]
    where = lake.result(result)
    return where if isinstance(where, list) and lake.has("evaluations", *where) else None


def _take_over(submission: Submission, where: list[str], lake: Lake) -> Verdict:
    """Copy the row at `where` to this submission's own row. Return its verdict."""
    [row] = lake.read("evaluations", *where)
    copy = row | {"attempt_id": submission.attempt_id, "repeat": submission.repeat}
    if lake.read("evaluations", *_where(submission)) != [copy]:
        lake.write("evaluations", *_where(submission), [_LATER_COLUMNS | copy])
    return Verdict(row["outcome"], row["reason"])


async def _in_fresh_workspace(
    submission: Submission, purpose: str, lake: Lake
) -> tuple[Evaluation, Audit]:
    instance, patch = submission.instance, submission.patch

    def is_resolved() -> bool:
        """Return True if the lake has such a verdict on the reference patch at the same place."""
        where = _find(replace(submission, patch=instance.patch, grading=0), lake, twice=False)
        return where is not None and lake.read("evaluations", *where)[0]["resolved"]

    is_reference_resolved = await asyncio.to_thread(is_resolved)
    unit = f"{purpose}-{submission.attempt_id[:12]}-{submission.verdict_key[:12]}"
    async with workspaces.workspace(instance, submission.place, unit) as workspace:
        evaluation = await grading.grade(
            instance,
            patch,
            workspace,
            open_apart=partial(workspaces.open_apart, unit),
            timeout_s=submission.timeout_s,
            is_reference_resolved=is_reference_resolved,
        )
    audited = await asyncio.to_thread(audit, instance, evaluation, differ)
    return evaluation, audited


def _record(evaluation: Evaluation, submission: Submission, audited: Audit, lake: Lake) -> str:
    """Write the row of a first grading. Return the verdict in one line."""
    row = records.evaluation_row(evaluation, submission, audited)
    lake.write("evaluations", *_where(submission), [row])
    line = verdict_line(evaluation, audited.verdict, audited.reasons)
    run_log().info("%s: %s", submission.label, line)
    return line


def _where(submission: Submission) -> tuple[str, str, str]:
    """Return experiment, arm and unit of the row.

    The unit contains the verdict key, because an upgrade can add a second verdict.
    """
    unit = f"{submission.attempt_id}-{submission.verdict_key[:12]}"
    return submission.experiment, submission.arm, unit


def _raise_if_broken(evaluation: Evaluation) -> None:
    if evaluation.outcome == "infrastructure":
        raise InfrastructureError(
            f"{evaluation.instance_id}: {evaluation.reason}", retryable=not evaluation.is_limited
        )
