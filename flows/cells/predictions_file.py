"""The gradings of a predictions file, with or without Prefect."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import InfrastructureError
from flows.cells import judging
from flows.cells.images.schedule import schedule_images
from flows.cells.judging import Verdict
from flows.display.errors import IncompleteRun
from flows.display.progress import TerminalProgress
from flows.experiments.cell_state import CellStates
from flows.experiments.cells import Submission
from flows.experiments.declaration import Images
from flows.experiments.keys import result_name
from flows.experiments.stop import Stop
from flows.formats import predictions as predictions_files
from flows.formats.predictions import Grading, PredictionSource
from flows.server.turns import in_turn
from flows.storage.lake import Lake
from reports.format import plural

T = TypeVar("T")

_WAITS_S = (2.0, 4.0)
"""Seconds before a grading is repeated after an infrastructure failure, as in a Prefect task."""


async def grade_file(
    predictions: Path,
    source: PredictionSource,
    how: Grading,
    lake: str | None,
    grade: Callable[..., Awaitable[Verdict]],
    progress: Callable[[str, int, Lake], TerminalProgress],
) -> dict[str, str]:
    """Grade a predictions file. Return outcomes by instance id.

    `grade` returns the verdict for a submission in a lake, from one grading or `twice`.

    Raises:
        IncompleteRun: the infrastructure failed for some predictions; run again to continue.
    """
    submissions, store = await predictions_files.submissions(predictions, source, how, lake)
    slots = asyncio.Semaphore(how.concurrency)
    spare = slots if how.keep_gb is None else None  # released while another run grades a patch
    recorded = partial(CellStates(store).verdict_at, twice=how.audit)
    images = schedule_images(
        submissions, source.dataset, Images(keep_gb=how.keep_gb), store, recorded
    )

    async def grade_one(submission: Submission) -> str:
        async with slots:
            try:
                async with places.open(submission) as place:
                    do = partial(grade, submission.at(place), store, twice=how.audit)
                    verdict = await in_turn(do, submission.label, store, Stop(), spare)
            except InfrastructureError as error:
                await bar.advance(submission.label, f"infrastructure: {error}")
                return "infrastructure"
            await bar.advance(submission.label, str(verdict))
            return verdict.outcome

    with progress(source.experiment, len(submissions), store) as bar:
        async with images as places:
            outcomes = await asyncio.gather(*map(grade_one, submissions))
    if failures := outcomes.count("infrastructure"):
        total = plural(len(outcomes), "prediction")
        raise IncompleteRun(f"{failures} of {total} could not be graded")
    return {s.instance.instance_id: o for s, o in zip(submissions, outcomes, strict=True)}


def show_here(name: str, total: int, lake: Lake) -> TerminalProgress:
    """Return the progress of a run without Prefect."""
    return TerminalProgress(name, total)


async def grade_without_prefect(submission: Submission, lake: Lake, *, twice: bool) -> Verdict:
    """Return the verdict for a submission as `judging.grade_once` does, without Prefect.

    A private server would take as much processor time as everything else. Results are stored where
    and as Prefect stores them.
    """
    evaluation = result_name("evaluation", submission.verdict_key)
    audit = result_name("audit", submission.audit_key)
    first = partial(_result, evaluation, judging.evaluate, submission, lake)
    second = partial(_result, audit, judging.grade_again, submission, lake)
    return await judging.grade_once(submission, lake, twice=twice, first=first, second=second)


async def _result(
    name: str,
    do: Callable[..., Awaitable[tuple[str, T]]],
    submission: Submission,
    lake: Lake,
    *args: Any,
    refresh: bool,
) -> T:
    """Return a stored result, or run `do`, which is repeated after infrastructure failures."""
    if not refresh and lake.has_result(name):
        stored: T = lake.result(name)
        return stored
    waits = list(_WAITS_S)
    while True:
        try:
            _, result = await do(submission, lake, *args)
            break
        except InfrastructureError as error:
            if not (waits and error.retryable):
                raise
        await asyncio.sleep(waits.pop(0) * random.uniform(1, 2))  # noqa: S311 - no secret
    await asyncio.to_thread(lake.write_result, name, result)
    return result
