"""Import a predictions file: patches of any agent, to be graded.

Imported attempts have `imported` as `agent` or `environment`, so that reports treat all runs alike
and still show their origin.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.workspaces import Environment
from eval import instances, predictions
from eval.selection import Selection
from eval.types import Instance, Prediction
from flows.display.errors import UsageError
from flows.experiments import plan, records, workspaces
from flows.experiments.cells import Place, Submission
from flows.experiments.resources import Resources, refuse_excess
from flows.formats import imported_arms, lake_rows
from flows.formats.imported_arms import ImportedArm
from flows.storage.lake import Lake


@dataclass(frozen=True)
class PredictionSource:
    """Experiment name, dataset and split of an import."""

    experiment: str
    dataset: str
    split: str = "test"


async def submissions(
    path: Path,
    source: PredictionSource,
    environment: str,
    timeout_s: float,
    lake_path: str | None,
    *,
    network: bool,
    resources: Resources,
) -> tuple[list[Submission], Lake]:
    """Declare a predictions file as an experiment. Return its patches, grouped by instance.

    Raises:
        PredictionsError, DatasetError, UsageError: a file or an id cannot be used.
    """
    found, chosen, where, lake = await check(path, source, environment, lake_path, resources)
    place = Place(where, network=network, resources=resources)
    waiting = []
    with imported_arms.alone(lake, source.experiment):
        arms = _declare_predictions(lake, source, found, chosen, where)
        for prediction in found:
            instance = chosen[prediction.instance_id]
            arm = arms[prediction.model_name_or_path]
            patch = prediction.model_patch
            attempt_id = _file_prediction(
                lake,
                source.experiment,
                arm,
                instance.instance_id,
                instance.repo,
                patch,
                detail="predictions file",
            )
            waiting.append(
                Submission(source.experiment, arm, instance, 0, attempt_id, patch, place, timeout_s)
            )
    order = list(chosen)
    return sorted(waiting, key=lambda one: order.index(one.instance.instance_id)), lake


async def check(
    path: Path,
    source: PredictionSource,
    environment: str,
    lake_path: str | None,
    resources: Resources,
) -> tuple[list[Prediction], dict[str, Instance], Environment, Lake]:
    """Return the predictions of a file, their instances, the environment and the lake.

    Nothing is written.

    Raises:
        PredictionsError, DatasetError, UsageError: a file, an id or the name cannot be used.
    """
    found = predictions.read(path)
    if not found:
        raise UsageError(f"{path}: there is no prediction in it")
    imported_arms.check_name(source.experiment)
    chosen = instances_of([p.instance_id for p in found], source)
    where = await workspaces.decide(environment, list(chosen.values()))
    await refuse_excess(resources, chosen.values(), where)
    lake = Lake.open(lake_path)
    imported_arms.check_free(lake, source.experiment)
    return found, chosen, where, lake


def _declare_predictions(
    lake: Lake,
    source: PredictionSource,
    found: list[Prediction],
    chosen: dict[str, Instance],
    environment: str,
) -> dict[str, str]:
    """Declare an arm for each model of a predictions file. Return arm names by model name.

    Predictions of several files are graded side by side; nothing already graded is removed.
    """
    labels = sorted({prediction.model_name_or_path for prediction in found})
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
    lake: Lake,
    experiment: str,
    arm: str,
    instance_id: str,
    repo: str,
    patch: str | None,
    *,
    detail: str,
) -> str:
    """Record a patch whose attempt or content is unknown. Return the attempt id.

    Recording the same patch again changes nothing.
    """
    where = (experiment, arm)
    attempt_id = imported_arms.prediction_id(experiment, arm, instance_id, patch)
    cell = {"attempt_id": attempt_id, "instance_id": instance_id, "repeat": 0}
    if patch is not None:
        lake.write("predictions", *where, attempt_id, [records.patch_row(cell, arm, patch)])
    filed = lake.read("attempts", *where, attempt_id)
    started_at = filed[0]["started_at"] if filed else datetime.now(UTC)
    row = lake_rows.bare_attempt_row(
        cell, repo, model="unknown", detail=detail, started_at=started_at
    )
    if filed != [row]:
        lake.write("attempts", *where, attempt_id, [row])
    return attempt_id
