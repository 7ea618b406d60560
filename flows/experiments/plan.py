"""Turn a declared experiment into runnable cells, before anything is paid for."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from agent.arms import python
from agent.journal import Attempt
from agent.models.spec import ModelSpec
from agent.workspaces import Environment
from eval import instances, selection
from eval.digests import canonical_digest
from eval.selection import Selection
from eval.types import Instance
from flows.display.errors import UsageError
from flows.display.terminal import say_once
from flows.experiments import records, workspaces
from flows.experiments.arms import PythonArm
from flows.experiments.cells import Cell, Place, plan
from flows.experiments.declaration import Experiment, from_record
from flows.experiments.earlier import EarlierAttempts, read_spec, refuse_outdated
from flows.experiments.keys import CELL_KEY_FIELDS, agent_spec, id_of_key, key_of, spec_in_key
from flows.experiments.models import refuse_unusable_models
from flows.experiments.resources import refuse_excess
from flows.storage import journals
from flows.storage.lake import Lake, Row
from reports.format import plural

_SHOWN_CHANGES = 4
_SHOWN_CHARACTERS = 40
_NAME_ONLY = ("extra", "settings")
"""Fields with content of any kind, such as headers, whose values are not printed."""


@dataclass(frozen=True)
class Rebuy:
    """Cells of an arm that have attempts, and are bought again for the same reason."""

    arm: str
    cells: int
    changes: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.changes) - _SHOWN_CHANGES
        shown = ", ".join([*self.changes[:_SHOWN_CHANGES], *([f"{more} more"] if more > 0 else [])])
        return (
            f"{plural(self.cells, 'cell')} of arm {self.arm} with earlier attempts "
            f"{'is' if self.cells == 1 else 'are'} bought again: {shown}"
        )


def rebuys(cells: Sequence[Cell], known: EarlierAttempts, lake: Lake) -> list[Rebuy]:
    """Return the cells that have attempts, but none that the declaration asks for now."""
    changed = [cell for cell in cells if known.at(cell) and not known.matches(cell)]
    if not changed:
        return []
    before = _declared_before(changed[0].experiment.name, lake)
    found = Counter((cell.arm.name, _changes(cell, known, before)) for cell in changed)
    return [Rebuy(arm, count, changes) for (arm, changes), count in found.items()]


def _declared_before(experiment: str, lake: Lake) -> list[Mapping[str, Any]]:
    """Return the fields of recorded declarations that are part of a key, each combination once."""
    found: list[Mapping[str, Any]] = []
    for row in lake.rows("experiments", experiment):
        declared = json.loads(row["declaration"])
        fields = {name: declared[name] for name in CELL_KEY_FIELDS if name in declared}
        if fields not in found:
            found.append(fields)
    return found


def _changes(
    cell: Cell, known: EarlierAttempts, before: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the changes since the attempt that is most like what is declared now."""
    found = [_changes_since(each.attempt, cell, before) for each in known.at(cell)]
    return min(found, key=lambda changes: (len(changes), changes))


def _changes_since(
    attempt: Attempt, cell: Cell, before: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    recorded = read_spec(attempt.spec)
    changes = [*_differences(spec_in_key(recorded, cell), agent_spec(cell))]
    for fields in before:
        if id_of_key(key_of(cell, recorded, None, fields)) == attempt.attempt_id:
            now = {name: getattr(cell.experiment, name) for name in fields}
            return (*changes, *_differences(fields, now))
    if not changes:
        changes = [f"its base {cell.arm.base}"] if cell.base is not None else ["the task itself"]
    return tuple(changes)


def _differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the fields whose values differ, each with both values."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            inner = f"{path}.{name}" if path else str(name)
            yield from _differences(old.get(name), new.get(name), inner)
    elif any(part in _NAME_ONLY for part in path.split(".")):
        yield path
    else:
        yield f"{path} {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    """Return a value in a few characters of one line."""
    text = "none" if value is None else json.dumps(value)
    is_long = len(text) > _SHOWN_CHARACTERS
    return f"{text[: _SHOWN_CHARACTERS - 3]}..." if is_long else text


def select(dataset: str, split: str, wanted: Selection) -> list[Instance]:
    """Return the selected instances of a dataset. Say once which rows of it cannot be used.

    Raises:
        DatasetError: the dataset or the selection cannot be used, or it names an unusable row.
    """
    found = instances.read(dataset, split)
    chosen = selection.select(found.instances, wanted, found.unusable)
    if found.unusable:
        say_once(found.warning)  # a command checks a dataset before its flow does
    return chosen


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
    return select(experiment.dataset, experiment.split, experiment.select)


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
        "primary": None,
        "family": [],
        "stop_when": None,
        "gates": {},
    }
    return experiment.model_copy(update=changes)


def experiment_rows(
    experiment: Experiment,
    instances: list[Instance],
    digest: str,
    dataset_digest: str,
    environment: str,
    declared_at: datetime,
) -> Iterable[tuple[str, Row]]:
    """Return the rows of `experiments`, each with the name of its arm."""
    primary = experiment.primary
    for order, arm in enumerate(experiment.arms):
        own = experiment.model_of(arm)
        models = arm.options.models(own) if own else {}
        yield (
            arm.name,
            {
                "declared_at": declared_at,
                "declaration_digest": digest,
                "declaration": experiment.model_dump_json(),
                "arm_order": order,
                "agent": arm.agent,
                "model": _all_models(models),
                "simulated": any(model.provider == "simulated" for model in models.values()),
                "dataset": experiment.dataset,
                "dataset_digest": dataset_digest,
                "instance_ids": [instance.instance_id for instance in instances],
                "repeats": experiment.repeats,
                "environment": environment,
                "primary_baseline": primary.baseline if primary else None,
                "primary_candidate": primary.candidate if primary else None,
                "primary_margin": primary.margin if primary else None,
                "family": [pair.model_dump() for pair in experiment.family],
                "willingness_to_pay": experiment.willingness_to_pay,
                "derived_from": arm.base,
                "label": None,
                "own_instance_ids": None,
                "imported_from": None,
            },
        )


def _all_models(models: Mapping[str, ModelSpec]) -> str:
    """Return the models of an arm by role: its own model, and other models of single roles.

    Reports compare the value with that of the other arm.
    """
    names = {role: records.model_name(spec) for role, spec in models.items()}
    own = names.pop("", "none")
    return ", ".join([own, *(f"{role}: {name}" for role, name in names.items() if name != own)])


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
    declared = experiment_rows(experiment, chosen, digest, dataset_digest, environment, now)
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
