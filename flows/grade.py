"""Verdicts on patches: those of our own attempts, and anybody's predictions file."""

import asyncio
from pathlib import Path

from prefect import flow

from agent.errors import InfrastructureError
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
from flows import foreign, places, rows
from flows.cells import Submission
from flows.errors import IncompleteRun
from flows.keys import audit_key, evaluation_key
from flows.lake import Lake
from flows.progress import Progress
from flows.tasks import kept


@kept(
    "evaluation", "{submission.label}", lambda parameters: evaluation_key(parameters["submission"])
)
async def evaluate(submission: Submission, lake: Lake) -> EvaluationOutcome:
    """Grade a submission in a fresh workspace, audit the verdict and record both.

    Raises:
        InfrastructureError: nothing is known about the patch; recorded, never cached.
    """
    evaluation, audited = await _in_fresh_workspace(submission, "grade")
    row = rows.evaluation_row(evaluation, submission, audited)
    lake.write("evaluations", *_where(submission), [row])
    _raise_if_broken(evaluation)
    return evaluation.outcome


@kept("audit", "{submission.label}, again", lambda parameters: audit_key(parameters["submission"]))
async def grade_again(submission: Submission, lake: Lake) -> AuditedVerdict:
    """Grade a submission that has its verdict once more, and record what that says of it.

    The official verdict stays that of the first grading.

    Raises:
        InfrastructureError: nothing is known of the second grading; never cached.
    """
    evaluation, audited = await _in_fresh_workspace(submission, "audit")
    _raise_if_broken(evaluation)
    [row] = lake.read("evaluations", *_where(submission))
    first = Results(
        row["outcome"], frozenset(row["fail_to_pass_success"] + row["pass_to_pass_success"])
    )
    found = [*audited.reasons, *differences(first, results(evaluation))]
    reasons = dict.fromkeys([*(row.get("audit_reasons") or []), *map(str, found)])
    verdict = audited_verdict(first.outcome, in_doubt=bool(reasons))
    gradings = (row.get("gradings") or 1) + 1
    row |= rows.audit_columns(verdict, reasons, gradings)
    lake.write("evaluations", *_where(submission), [row])
    return verdict


async def graded(submission: Submission, lake: Lake, *, twice: bool) -> EvaluationOutcome:
    """The recorded verdict on a submission; `twice` has another grading confirm it.

    Raises:
        InfrastructureError: nothing is known about the patch.
    """
    first = evaluate.with_options(result_storage=lake.results)
    outcome: EvaluationOutcome = await first(submission, lake)
    # Prefect remembers a verdict whose row somebody has removed.
    is_gone = not lake.has("evaluations", *_where(submission))
    if is_gone:
        outcome = await first.with_options(refresh_cache=True)(submission, lake)
    if twice:
        second = grade_again.with_options(result_storage=lake.results, refresh_cache=is_gone)
        await second(submission, lake)
    return outcome


async def _in_fresh_workspace(submission: Submission, purpose: str) -> tuple[Evaluation, Audit]:
    instance, patch = submission.instance, submission.patch
    unit = f"{purpose}-{evaluation_key(submission)[:24]}"
    async with places.workspace(instance, submission.place, unit) as workspace:
        of_image = await image_changes(instance, workspace)
        evaluation = await grading.grade(instance, patch, workspace, timeout_s=submission.timeout_s)
    audited = await asyncio.to_thread(audit, instance, patch, evaluation, of_image)
    return evaluation, audited


def _where(submission: Submission) -> tuple[str, str, str]:
    """Experiment, arm and unit of the row.

    A verdict may be given again after an upgrade, beside the first: so the key names the file.
    """
    unit = f"{submission.attempt_id}-{evaluation_key(submission)[:12]}"
    return submission.experiment, submission.arm, unit


def _raise_if_broken(evaluation: Evaluation) -> None:
    if evaluation.outcome == "infrastructure":
        raise InfrastructureError(f"{evaluation.instance_id}: {evaluation.reason}")


@flow(name="grade", flow_run_name="{name}")
async def grade(
    predictions: Path,
    name: str,
    dataset: str = "bundled",
    split: str = "test",
    environment: str = "auto",
    timeout_s: float = 1800.0,
    concurrency: int = 4,
    network: bool = False,
    lake: str | None = None,
    audit: bool = False,
) -> dict[str, str]:
    """Grade a predictions file as the experiment `name`; outcome by instance id.

    Every verdict is audited; with `audit`, a second grading has to confirm it.

    Raises:
        IncompleteRun: infrastructure broke for some; run again to continue.
    """
    source = foreign.Source(name, dataset, split)
    submissions, store = await foreign.submissions(
        predictions, source, environment, timeout_s, lake, network=network
    )
    slots = asyncio.Semaphore(concurrency)
    with Progress(name, len(submissions)) as progress:

        async def one(submission: Submission) -> str:
            async with slots:
                try:
                    outcome: str = await graded(submission, store, twice=audit)
                except InfrastructureError as error:
                    outcome = "infrastructure"
                    await progress.advance(submission.label, f"{outcome}: {error}")
                else:
                    await progress.advance(submission.label, outcome)
                return outcome

        outcomes = await asyncio.gather(*(one(submission) for submission in submissions))
    broken = outcomes.count("infrastructure")
    if broken:
        raise IncompleteRun(f"{broken} of {len(outcomes)} predictions could not be graded")
    return {s.instance.instance_id: o for s, o in zip(submissions, outcomes, strict=True)}
