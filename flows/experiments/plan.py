"""Turn a declared experiment into runnable cells, before anything is paid for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from agent.arms import python
from agent.workspaces.protocol import Environment
from eval import instances, selection
from eval.digests import canonical_digest
from eval.selection import Selection
from eval.types import Instance
from flows.display.errors import UsageError
from flows.experiments import datasets, records, workspaces
from flows.experiments.arms import PythonArm
from flows.experiments.cells import Cell, Place, plan
from flows.experiments.declaration import Experiment, from_record
from flows.experiments.earlier import EarlierAttempts, refuse_outdated
from flows.experiments.models import refuse_unusable_models
from flows.experiments.rebuys import Rebuy, rebuys
from flows.experiments.resources import refuse_excess
from flows.storage import journals
from flows.storage.lake import Lake

_NAMED = 5
"""Selected instances that an error names."""


@dataclass(frozen=True)
class Plan:
    """The cells of an experiment and their environment."""

    experiment: Experiment
    environment: Environment
    cells: list[Cell]
    lake: Lake
    rebuys: Sequence[Rebuy] = ()
    """Cells that have attempts, and are bought again because the declaration has changed."""

    def cell(self, arm: str, instance_id: str, repeat: int) -> Cell:
        """Return the cell of an arm, an instance and a repeat.

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


async def prepare(
    experiment: Experiment, lake_path: str | None, *, distributed: bool = False
) -> Plan:
    """Load and select the instances, decide their environment and record the declaration.

    With `distributed`, workers run the cells, so this machine need not be able to.

    Images are not checked: `flows.cells.images.schedule` pulls or builds each of them in time.

    Raises:
        DatasetError, UsageError: the operator's input is invalid, for example a lake and a journal
            that do not belong together, or a model without its key.
        JournalError: the journal cannot be opened.
    """
    chosen, environment, lake = await check(experiment, lake_path, distributed=distributed)
    place = Place(environment, network=experiment.network, resources=experiment.resources)
    cells = plan(experiment, chosen, place)
    known = await asyncio.to_thread(EarlierAttempts.read, lake, experiment.name)
    refuse_outdated(cells, known)
    cells = [known.resume(cell) for cell in cells]
    # The keys of workers are theirs: `run_shard` checks them.
    await asyncio.to_thread(
        refuse_unusable_models, experiment, cells, lake, with_keys=not distributed
    )
    await asyncio.to_thread(journals.claim, lake, experiment.name)
    again = await asyncio.to_thread(rebuys, cells, known, lake)
    declare(experiment, chosen, environment, lake)
    return Plan(experiment, environment, cells, lake, again)


async def check(
    experiment: Experiment, lake_path: str | None, *, distributed: bool = False
) -> tuple[list[Instance], Environment, Lake]:
    """Return the instances, their environment and the lake, without recording a declaration.

    Raises:
        DatasetError, InvalidSpec, UsageError: the operator's input is invalid.
    """
    for arm in experiment.arms:
        if isinstance(arm, PythonArm):
            python.load(arm.options.function)
        own = experiment.model_of(arm)
        if own is not None:
            arm.options.models(own)  # which checks roles and capabilities
    chosen = await asyncio.to_thread(load, experiment)
    environment = (
        _declared(experiment)
        if distributed
        else await workspaces.decide(experiment.environment, chosen)
    )
    if not distributed:
        await refuse_excess(experiment.resources, chosen, environment)
    return chosen, environment, Lake.open(lake_path)


def _declared(experiment: Experiment) -> Environment:
    assert experiment.environment != "auto", "the experiment was validated"
    return experiment.environment


def load(experiment: Experiment) -> list[Instance]:
    """Return the instances that an experiment selects.

    Raises:
        DatasetError: the dataset, a row or the selection cannot be used.
    """
    return datasets.select(experiment.dataset, experiment.split, experiment.select)


def only(experiment: Experiment, arm: str, instance_id: str) -> Experiment:
    """Return an experiment with the first attempt of one arm at one instance, run locally.

    A derived arm comes with those that it derives from.

    Raises:
        DatasetError: the dataset has no such instance, or cannot be used.
        UsageError: the experiment has no such arm, or does not select the instance.
    """
    chosen = experiment.arm(arm)
    wanted = Selection(ids=[instance_id])
    found = instances.read(experiment.dataset, experiment.split)
    selection.select(found.instances, wanted, found.unusable)  # raises if there is none
    selectable = selection.select(found.instances, experiment.select, found.unusable)
    selected = [each.instance_id for each in selectable]
    if instance_id not in selected:
        more = f" or {len(selected) - _NAMED} others" if len(selected) > _NAMED else ""
        raise UsageError(
            f"experiment {experiment.name!r} does not select {instance_id}: name one that it does "
            f"({', '.join(selected[:_NAMED])}{more}), or add it to `select` in the file"
        )
    changes = {
        "arms": [chosen, *experiment.bases(chosen)],
        "select": wanted,
        "repeats": 1,
        "execution": "local",
        "isolation": "none",
        "primary": None,
        "family": [],
        "stop_when": None,
        "gates": {},
    }
    return experiment.model_copy(update=changes)


def declare(
    experiment: Experiment, chosen: list[Instance], environment: Environment, lake: Lake
) -> None:
    """Record the declaration, unless it equals the last one recorded."""
    dataset_digest = instances.dataset_digest(chosen)
    resolved = (dataset_digest, environment)
    digest = canonical_digest([experiment.defining, *resolved])
    unit = lake.latest_unit("experiments", experiment.name)
    if unit.endswith(digest[:16]) or _is_declared(experiment, resolved, unit, lake):
        return
    now = datetime.now(UTC)
    declared = records.experiment_rows(experiment, chosen, digest, dataset_digest, environment, now)
    for arm, row in declared:
        lake.write(
            "experiments", experiment.name, arm, f"{now:%Y%m%dT%H%M%S%f}-{digest[:16]}", [row]
        )


def _is_declared(
    experiment: Experiment, resolved: tuple[str, Environment], unit: str, lake: Lake
) -> bool:
    """Return True if a recorded declaration is equivalent.

    Another release may have recorded it, with a digest computed differently or over fewer fields.
    """
    rows = lake.find("experiments", unit, experiment.name) if unit else []
    if not rows or (rows[0]["dataset_digest"], rows[0]["environment"]) != resolved:
        return False
    try:
        recorded = from_record(rows[0]["declaration"])
    except ValidationError:  # it declares an import, or has fields that no longer exist
        return False
    return recorded.defining == experiment.defining
