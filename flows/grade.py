"""Verdicts on the patches of any predictions file."""

from pathlib import Path
from typing import Literal

from prefect import flow

from flows.cells.attempts import grade_submission
from flows.cells.predictions_file import grade_file
from flows.experiments.resources import Resources
from flows.formats.predictions import Grading, PredictionSource
from flows.server.flow_run import end_as_state
from flows.server.progress import RunProgress


@flow(name="grade", flow_run_name="{name}")
@end_as_state
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
    source = PredictionSource(name, dataset, split)
    limits = resources or Resources()
    how = Grading(environment, timeout_s, concurrency, network, audit, keep_gb, limits)
    return await grade_file(predictions, source, how, lake, grade_submission, RunProgress)
