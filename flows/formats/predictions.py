"""Import a predictions file: patches of any agent, to be graded.

Imported attempts have `imported` as `agent` or `environment`, so that reports treat all runs alike
and still show their origin.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent.workspaces import Environment
from eval import instances, predictions
from eval.selection import Selection
from eval.types import Instance, Prediction
from flows.display.errors import UsageError
from flows.experiments import plan, workspaces
from flows.experiments.cells import Place, Submission
from flows.experiments.resources import Resources, refuse_excess
from flows.formats import imported_arms, lake_rows
from flows.formats.imported_arms import ImportedArm
from flows.storage.files import patch_row
from flows.storage.lake import Lake


@dataclass(frozen=True)
class PredictionSource:
    """Experiment name, dataset and split of an import."""

    experiment: str
    dataset: str
    split: str = "test"


@dataclass(frozen=True)
class Grading:
    """The settings of the gradings of a predictions file."""

    environment: str = "auto"
    timeout_s: float = 1800.0
    concurrency: int = 4
    network: bool = False
    audit: bool = False
    keep_gb: float | None = None
    resources: Resources = field(default_factory=Resources)


async def submissions(
    path: Path, source: PredictionSource, how: Grading, lake_path: str | None
) -> tuple[list[Submission], Lake]:
    """Declare a predictions file as an experiment. Return its patches, grouped by instance.

    Raises:
        PredictionsError, DatasetError, UsageError: a file or an id cannot be used.
    """
    listed, chosen, where, lake = await check(path, source, how, lake_path)
    place = Place(where, network=how.network, resources=how.resources)
    experiment, ungraded = source.experiment, []
    with imported_arms.alone(lake, experiment):
        arms = _declare_predictions(lake, source, listed, chosen, where)
        for prediction in listed:
            instance = chosen[prediction.instance_id]
            arm, patch = arms[prediction.model_name_or_path], prediction.model_patch
            attempt_id = _file_prediction(lake, experiment, arm, instance, patch)
            ungraded.append(
                Submission(experiment, arm, instance, 0, attempt_id, patch, place, how.timeout_s)
            )
    order = list(chosen)
    ungraded.sort(key=lambda submission: order.index(submission.instance.instance_id))
    return ungraded, lake


async def check(
    path: Path, source: PredictionSource, how: Grading, lake_path: str | None
) -> tuple[list[Prediction], dict[str, Instance], Environment, Lake]:
    """Return the predictions of a file, their instances, the environment and the lake.

    Nothing is written.

    Raises:
        PredictionsError, DatasetError, UsageError: a file, an id or the name cannot be used.
    """
    listed = predictions.read(path)
    if not listed:
        raise UsageError(f"{path} contains no prediction")
    imported_arms.check_name(source.experiment)
    chosen = instances_of([p.instance_id for p in listed], source)
    where = await workspaces.decide(how.environment, list(chosen.values()))
    await refuse_excess(how.resources, chosen.values(), where)
    lake = Lake.open(lake_path)
    imported_arms.check_free(lake, source.experiment)
    return listed, chosen, where, lake


def _declare_predictions(
    lake: Lake,
    source: PredictionSource,
    listed: list[Prediction],
    chosen: dict[str, Instance],
    environment: str,
) -> dict[str, str]:
    """Declare an arm for each model of a predictions file. Return arm names by model name.

    Predictions of several files are graded side by side; nothing already graded is removed.
    """
    labels = sorted({prediction.model_name_or_path for prediction in listed})
    names = imported_arms.arm_names(labels, imported_arms.load_arms(lake, source.experiment))
    digest = instances.dataset_digest(chosen.values())
    imported_arms.declare(
        lake,
        source.experiment,
        [
            ImportedArm(
                names[label],
                agent="imported",
                model="unknown",
                environment=environment,
                dataset=source.dataset,
                dataset_digest=digest,
                instance_ids=tuple(chosen),
                label=label,
            )
            for label in labels
        ],
    )
    return names


def instances_of(ids: list[str], source: PredictionSource) -> dict[str, Instance]:
    """Return the instances of a dataset with these ids, by id.

    Raises:
        DatasetError: an id is not in the dataset.
    """
    wanted = Selection(ids=sorted(set(ids)))
    return {i.instance_id: i for i in plan.select(source.dataset, source.split, wanted)}


def _file_prediction(
    lake: Lake, experiment: str, arm: str, instance: Instance, patch: str | None
) -> str:
    """Record a patch whose attempt or content is unknown. Return the attempt id.

    Recording the same patch again changes nothing.
    """
    where = (experiment, arm)
    attempt_id = imported_arms.prediction_id(experiment, arm, instance.instance_id, patch)
    cell = {"attempt_id": attempt_id, "instance_id": instance.instance_id, "repeat": 0}
    if patch is not None:
        lake.write("predictions", *where, attempt_id, [patch_row(cell, arm, patch)])
    filed = lake.read("attempts", *where, attempt_id)
    started_at = filed[0]["started_at"] if filed else datetime.now(UTC)
    row = lake_rows.bare_attempt_row(
        cell, instance.repo, model="unknown", detail="predictions file", started_at=started_at
    )
    if filed != [row]:
        lake.write("attempts", *where, attempt_id, [row])
    return attempt_id
