"""The Prefect tasks that grade a submission, and grade it again."""

from functools import partial

from prefect.client.schemas.objects import State
from prefect.states import Completed

from eval.audit import AuditedVerdict
from flows.cells import judging
from flows.cells.judging import Verdict
from flows.experiments.cells import Submission
from flows.server.caching import cache_permanently, result_of
from flows.storage.lake import Lake


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
