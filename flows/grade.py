"""Verdicts on patches: from our own attempts, and from any predictions file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from agent.errors import InfrastructureError
from agent.journal import Journal
from agent.journal.holding import held
from eval import grading
from eval.audit import (
    Audit,
    AuditedVerdict,
    Results,
    audit,
    audited_verdict,
    differences,
    image_changes,
    results,
)
from eval.types import Evaluation, EvaluationOutcome
from flows.errors import IncompleteRun, UsageError
from flows.experiments import records, workspaces
from flows.experiments.cell_state import CellStates
from flows.experiments.cells import Submission
from flows.experiments.declaration import Images
from flows.experiments.keys import audit_key, is_cached, result_name, verdict_key
from flows.experiments.stop import Stop
from flows.images.schedule import scheduled
from flows.imports import predictions as predictions_files
from flows.server.caching import filed, kept, result_of
from flows.server.logs import run_log, verdict_line
from flows.server.progress import RunProgress
from flows.server.turns import Slot, in_turn
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

_TURNS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@kept("evaluation", "{submission.label}", lambda parameters: verdict_key(parameters["submission"]))
async def evaluate(submission: Submission, lake: Lake) -> State[list[str]]:
    """Grade a submission in a fresh workspace, audit the verdict and record both.

    Return experiment, arm and unit of the row, in a state with the verdict.

    Raises:
        InfrastructureError: the patch could not be graded; recorded, never cached.
    """
    started_at = datetime.now(UTC)
    try:
        evaluation, audited = await _in_fresh_workspace(submission, "grade")
    except InfrastructureError as error:
        evaluation = grading.broken(
            submission.instance,
            submission.place.environment,
            " ".join(str(error).split()),
            started_at=started_at,
            timeout_s=submission.timeout_s,
        )
        _record(
            evaluation, submission, audit(submission.instance, submission.patch, evaluation), lake
        )
        raise
    line = _record(evaluation, submission, audited, lake)
    _raise_if_broken(evaluation)
    return Completed(message=line, data=list(_where(submission)))


@kept("audit", "{submission.label}, again", lambda parameters: audit_key(parameters["submission"]))
async def grade_again(
    submission: Submission, where: list[str], lake: Lake
) -> State[AuditedVerdict | None]:
    """Grade a submission with a recorded verdict again. Record the audited verdict.

    Return it in a state.

    The official verdict remains that of the first grading. `where` is the result of `evaluate`.

    Raises:
        InfrastructureError: the second grading failed; never cached.
    """
    evaluation, audited = await _in_fresh_workspace(submission, "audit")
    _raise_if_broken(evaluation)
    experiment, arm, unit = where
    [row] = lake.read("evaluations", experiment, arm, unit)
    first = Results(
        row["outcome"], frozenset(row["fail_to_pass_success"] + row["pass_to_pass_success"])
    )
    found = [*audited.reasons, *differences(first, results(evaluation))]
    reasons = dict.fromkeys([*(row.get("audit_reasons") or []), *map(str, found)])
    verdict = audited_verdict(first.outcome, in_doubt=bool(reasons))
    gradings = (row.get("gradings") or 1) + 1
    row |= records.audit_columns(verdict, reasons, gradings)
    lake.write("evaluations", experiment, arm, unit, [row])
    again = verdict_line(evaluation, verdict, reasons)
    run_log().info("%s, again: %s", submission.label, again)
    return Completed(message=again, data=verdict)


async def graded(submission: Submission, lake: Lake, *, twice: bool) -> EvaluationOutcome:
    """Return the recorded outcome for a submission. With `twice`, confirm it by a second grading.

    Raises:
        InfrastructureError: the patch could not be graded.
        LeaseHeld: another run is grading a submission with the same verdict key.
    """
    first, second = await filed(evaluate, lake), await filed(grade_again, lake)
    async with _turn(submission, lake, twice=twice) as known:
        if known is not None:  # a task run would only find that, and costs the server 20 ms
            return await asyncio.to_thread(_taken_over, submission, known, lake)
        where = await result_of(first, submission, lake)
        # Prefect still has the cached result of a verdict whose row was removed.
        is_gone = not lake.has("evaluations", *where)
        if is_gone:
            where = await result_of(first.with_options(refresh_cache=True), submission, lake)
        if twice:
            second = second.with_options(refresh_cache=True) if is_gone else second
            await result_of(second, submission, where, lake)
        return _taken_over(submission, where, lake)


@asynccontextmanager
async def _turn(
    submission: Submission, lake: Lake, *, twice: bool
) -> AsyncIterator[list[str] | None]:
    """Serialize gradings with the same verdict key. Yield the recorded verdict as `_known` does.

    Raises:
        LeaseHeld: another program is grading it.
    """
    key = verdict_key(submission)
    async with _TURNS.setdefault(key, asyncio.Lock()):
        known = await asyncio.to_thread(_known, submission, lake, twice=twice)
        journal = None if known else await asyncio.to_thread(_journal, lake)
        if journal is None:
            yield known
            return
        name = f"verdict-{key}"
        await asyncio.to_thread(journal.offer, name)
        async with held(journal, name):
            # Another program may have graded it meanwhile.
            yield await asyncio.to_thread(_known, submission, lake, twice=twice)


def _known(submission: Submission, lake: Lake, *, twice: bool) -> list[str] | None:
    """Return experiment, arm and unit of the recorded verdict on the same patch, or None."""
    is_graded = is_cached("evaluation", verdict_key(submission), lake)
    if not is_graded or (twice and not is_cached("audit", audit_key(submission), lake)):
        return None
    where = lake.result(result_name("evaluation", verdict_key(submission)))
    is_there = isinstance(where, list) and lake.has("evaluations", *where)
    return where if is_there else None


def _journal(lake: Lake) -> Journal | None:
    """Return the journal for leases on verdicts; None for an object store without a database."""
    try:
        return open_journal(lake)
    except UsageError:
        return None


def _taken_over(submission: Submission, where: list[str], lake: Lake) -> EvaluationOutcome:
    """Copy the row at `where` to this submission's own row. Return its outcome."""
    [row] = lake.read("evaluations", *where)
    own = row | {"attempt_id": submission.attempt_id, "repeat": submission.repeat}
    if lake.read("evaluations", *_where(submission)) != [own]:
        lake.write("evaluations", *_where(submission), [own])
    outcome: EvaluationOutcome = row["outcome"]
    return outcome


async def _in_fresh_workspace(submission: Submission, purpose: str) -> tuple[Evaluation, Audit]:
    instance, patch = submission.instance, submission.patch
    unit = f"{purpose}-{submission.attempt_id[:12]}-{verdict_key(submission)[:12]}"
    async with workspaces.workspace(instance, submission.place, unit) as workspace:
        of_image = await image_changes(instance, workspace)
        evaluation = await grading.grade(instance, patch, workspace, timeout_s=submission.timeout_s)
    audited = await asyncio.to_thread(audit, instance, patch, evaluation, of_image)
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

    The unit contains the verdict key, because an upgrade may add a second verdict beside the first.
    """
    unit = f"{submission.attempt_id}-{verdict_key(submission)[:12]}"
    return submission.experiment, submission.arm, unit


def _told(submission: Submission, outcome: str, lake: Lake) -> str:
    """Return the recorded outcome, with its reason if there is one."""
    [row] = lake.read("evaluations", *_where(submission))
    return f"{outcome}: {row['reason']}" if row["reason"] else outcome


def _raise_if_broken(evaluation: Evaluation) -> None:
    if evaluation.outcome == "infrastructure":
        raise InfrastructureError(f"{evaluation.instance_id}: {evaluation.reason}")


@flow(name="grade", flow_run_name="{name}")
async def grade(
    predictions: Path,
    name: str,
    dataset: str = "bundled",
    split: str = "test",
    environment: Literal["auto", "docker", "host"] = "auto",
    timeout_s: float = 1800.0,
    concurrency: int = 4,
    network: bool = False,
    lake: str | None = None,
    audit: bool = False,
    keep_gb: float | None = None,
) -> dict[str, str]:
    """Grade a predictions file as the experiment `name`. Return outcomes by instance id.

    Args:
        predictions: `all_preds.jsonl` or `preds.json`, as the worker sees it.
        name: Name of the experiment that the results are recorded under.
        dataset: `bundled`, a Hugging Face id, a .parquet/.jsonl/.json file or a task repo.
        split: Split of a Hugging Face dataset or task repo.
        environment: auto uses docker if a daemon answers, else host.
        timeout_s: Seconds for the tests of one prediction.
        concurrency: Maximum number of concurrent gradings.
        network: Allow containers to use the network, as some eval scripts need.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        audit: Grade twice; differences make the verdict suspect. A single grading is audited too.
        keep_gb: Gigabytes of pulled or built images to keep; None keeps all of them.

    Raises:
        IncompleteRun: the infrastructure failed for some predictions; run again to continue.
    """
    source = predictions_files.PredictionSource(name, dataset, split)
    submissions, store = await predictions_files.submissions(
        predictions, source, environment, timeout_s, lake, network=network
    )
    slots = asyncio.Semaphore(concurrency)
    known = partial(CellStates(store).verdict_at, twice=audit)
    images = scheduled(submissions, dataset, Images(keep_gb=keep_gb), store, known)
    with RunProgress(name, len(submissions), store) as progress:

        async def one(submission: Submission) -> str:
            async with Slot(slots, is_kept=keep_gb is not None) as slot:
                try:
                    async with placed(submission) as there:
                        do = partial(graded, there, store, twice=audit)
                        outcome: str = await in_turn(do, submission.label, store, Stop(), slot)
                except InfrastructureError as error:
                    outcome = "infrastructure"
                    await progress.advance(submission.label, f"{outcome}: {error}")
                else:
                    await progress.advance(submission.label, _told(submission, outcome, store))
                return outcome

        async with images as placed:
            outcomes = await asyncio.gather(*(one(submission) for submission in submissions))
    broken = outcomes.count("infrastructure")
    if broken:
        raise IncompleteRun(f"{broken} of {len(outcomes)} predictions could not be graded")
    return {s.instance.instance_id: o for s, o in zip(submissions, outcomes, strict=True)}
