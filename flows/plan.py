"""From a declared experiment to the cells that can be run, before anything is paid for."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.workspaces.protocol import Environment
from eval import images, instances, selection
from eval.types import Instance
from flows import places, rows
from flows.cells import Cell, canonical_digest, plan
from flows.errors import UsageError
from flows.experiment import Experiment
from flows.lake import Lake
from flows.progress import say


@dataclass(frozen=True)
class Plan:
    """The cells of an experiment and where they run."""

    experiment: Experiment
    environment: Environment
    cells: list[Cell]
    lake: Lake

    def cell(self, arm: str, instance_id: str, repeat: int) -> Cell:
        """One cell.

        Raises:
            UsageError: the experiment has no such arm, instance or repeat.
        """
        self.experiment.arm(arm)
        for cell in self.cells:
            if (cell.arm.name, cell.instance.instance_id, cell.repeat) == (
                arm,
                instance_id,
                repeat,
            ):
                return cell
        raise UsageError(
            f"experiment {self.experiment.name!r} does not plan repeat {repeat} of {instance_id}"
        )


async def prepare(experiment: Experiment, lake_path: str | None) -> Plan:
    """Load and select the instances, decide where they run, build what can be built here.

    Raises:
        DatasetError, UsageError: something that the operator wrote cannot be.
        ImageError: an image of a task repo cannot be built.
    """
    chosen = await asyncio.to_thread(load, experiment)
    environment = await places.decide(experiment.environment, chosen)
    lake = Lake.open(lake_path)
    if environment == "docker":
        await asyncio.to_thread(build_missing, chosen, experiment.dataset)
    found = await asyncio.to_thread(
        places.find, chosen, experiment.dataset, environment, network=experiment.network
    )
    declare(experiment, chosen, environment, lake)
    return Plan(experiment, environment, plan(experiment, chosen, found), lake)


def load(experiment: Experiment) -> list[Instance]:
    """The instances that an experiment selects.

    Raises:
        DatasetError: the dataset, a row or the selection cannot be used.
    """
    available = instances.load(experiment.dataset, experiment.split)
    return selection.select(available, experiment.select)


def build_missing(chosen: list[Instance], dataset: str) -> None:
    """Build the images of a task repo that are not here; other images have to be pulled."""
    repo = instances.task_repo(dataset)
    if repo is None:
        return
    missing = {s.instance_id for s in images.check(chosen, dataset) if not s.present}
    if not missing:
        return
    say(f"building {len(missing)} images, on a new machine with their base image first")
    for image in images.build([i for i in chosen if i.instance_id in missing], repo):
        say(f"image of {image.instance_id}: {image.action} in {image.duration_s:.1f} s")


def declare(
    experiment: Experiment, chosen: list[Instance], environment: Environment, lake: Lake
) -> None:
    """Record the declaration, unless it is the one that was recorded last."""
    dataset_digest = instances.dataset_digest(chosen)
    digest = canonical_digest([experiment.digest, dataset_digest, environment])[:16]
    if lake.latest_unit("experiments", experiment.name).endswith(digest):
        return
    now = datetime.now(UTC)
    for arm, row in rows.experiment_rows(experiment, chosen, dataset_digest, environment, now):
        lake.write("experiments", experiment.name, arm, f"{now:%Y%m%dT%H%M%S%f}-{digest}", [row])
