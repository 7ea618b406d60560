"""Verdicts on the patches of any predictions file."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Literal

from prefect import flow

from agent.errors import InfrastructureError
from flows.errors import IncompleteRun
from flows.experiments.cell_state import CellStates
from flows.experiments.cells import Submission
from flows.experiments.declaration import Images
from flows.experiments.resources import Resources
from flows.experiments.stop import Stop
from flows.images.schedule import scheduled
from flows.imports import predictions as predictions_files
from flows.server.progress import RunProgress
from flows.server.turns import Slot, in_turn
from flows.verdicts import graded


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
    resources: Resources | None = None,
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
        resources: Limits of each container; by default what the rows ask for.

    Raises:
        IncompleteRun: the infrastructure failed for some predictions; run again to continue.
    """
    source = predictions_files.PredictionSource(name, dataset, split)
    submissions, store = await predictions_files.submissions(
        predictions,
        source,
        environment,
        timeout_s,
        lake,
        network=network,
        resources=resources or Resources(),
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
                        verdict = await in_turn(do, submission.label, store, Stop(), slot)
                except InfrastructureError as error:
                    await progress.advance(submission.label, f"infrastructure: {error}")
                    return "infrastructure"
                await progress.advance(submission.label, str(verdict))
                return verdict.outcome

        async with images as placed:
            outcomes = await asyncio.gather(*(one(submission) for submission in submissions))
    broken = outcomes.count("infrastructure")
    if broken:
        raise IncompleteRun(f"{broken} of {len(outcomes)} predictions could not be graded")
    return {s.instance.instance_id: o for s, o in zip(submissions, outcomes, strict=True)}
