"""Verdicts on patches: those of our own attempts, and anybody's predictions file."""

import asyncio
from pathlib import Path

from prefect import flow

from agent.errors import InfrastructureError
from eval import grading
from eval.types import EvaluationOutcome
from flows import foreign, places, rows
from flows.cells import Submission
from flows.errors import IncompleteRun
from flows.keys import evaluation_key
from flows.lake import Lake
from flows.progress import Progress
from flows.tasks import kept


@kept(
    "evaluation", "{submission.label}", lambda parameters: evaluation_key(parameters["submission"])
)
async def evaluate(submission: Submission, lake: Lake) -> EvaluationOutcome:
    """Grade a submission in a fresh workspace and record the verdict.

    Raises:
        InfrastructureError: nothing is known about the patch; recorded, never cached.
    """
    purpose = f"grade-{evaluation_key(submission)[:24]}"
    async with places.workspace(submission.instance, submission.place, purpose) as workspace:
        evaluation = await grading.grade(
            submission.instance, submission.patch, workspace, timeout_s=submission.timeout_s
        )
    # A verdict may be given again after an upgrade, beside the first: so the key names the file.
    unit = f"{submission.attempt_id}-{evaluation_key(submission)[:12]}"
    row = rows.evaluation_row(evaluation, submission)
    lake.write("evaluations", submission.experiment, submission.arm, unit, [row])
    if evaluation.outcome == "infrastructure":
        raise InfrastructureError(f"{submission.instance.instance_id}: {evaluation.reason}")
    return evaluation.outcome


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
) -> dict[str, str]:
    """Grade a predictions file as the experiment `name`; outcome by instance id.

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
                    outcome: str = await evaluate.with_options(result_storage=store.results)(
                        submission, store
                    )
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
