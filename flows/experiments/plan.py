"""Turn a declared experiment into runnable cells, before anything is paid for."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from agent.arms import python
from agent.journal import Attempt
from agent.workspaces import Environment
from eval import instances, selection
from eval.digests import canonical_digest
from eval.errors import DatasetError
from eval.selection import Selection
from eval.types import Instance
from flows.display.errors import UsageError
from flows.display.terminal import say_once
from flows.experiments import probe, records, workspaces
from flows.experiments.arms import PythonArm
from flows.experiments.cell_state import find_unsolved
from flows.experiments.cells import Cell, Place, plan
from flows.experiments.declaration import Experiment, from_record
from flows.experiments.earlier import EarlierAttempts, read_spec, refuse_outdated
from flows.experiments.keys import CELL_KEY_FIELDS, agent_spec, id_of_key, key_of, spec_in_key
from flows.experiments.models import find_model_problems
from flows.experiments.needs import Needs
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
        changes, more = list(self.changes[:_SHOWN_CHANGES]), len(self.changes) - _SHOWN_CHANGES
        if more > 0:
            changes.append(f"{more} more")
        return (
            f"{plural(self.cells, 'cell')} of arm {self.arm} with earlier attempts "
            f"{'is' if self.cells == 1 else 'are'} bought again: {', '.join(changes)}"
        )


def rebuys(cells: Sequence[Cell], earlier: EarlierAttempts, lake: Lake) -> list[Rebuy]:
    """Return the cells that have attempts, but none that the declaration asks for now."""
    changed = [cell for cell in cells if earlier.at(cell) and not earlier.matches(cell)]
    if not changed:
        return []
    # The fields of recorded declarations that are part of a key, each combination once.
    before: list[Mapping[str, Any]] = []
    for row in lake.rows("experiments", changed[0].experiment.name):
        declared = json.loads(row["declaration"])
        fields = {name: declared[name] for name in CELL_KEY_FIELDS if name in declared}
        if fields not in before:
            before.append(fields)
    counts = Counter[tuple[str, tuple[str, ...]]]()
    for cell in changed:
        # Report the changes since the attempt that is most like the declared one.
        changes = [_changes_since(w.attempt, cell, before) for w in earlier.at(cell)]
        counts[cell.arm.name, min(changes, key=lambda names: (len(names), names))] += 1
    return [Rebuy(arm, count, names) for (arm, names), count in counts.items()]


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
        yield f"{path} {_abbreviate(old)} -> {_abbreviate(new)}"


def _abbreviate(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    is_long = len(text) > _SHOWN_CHARACTERS
    return f"{text[: _SHOWN_CHARACTERS - 3]}..." if is_long else text


def select(dataset: str, split: str, wanted: Selection) -> list[Instance]:
    """Return the selected instances of a dataset. Say once which rows of it cannot be used.

    Raises:
        DatasetError: the dataset or the selection cannot be used, or it names an unusable row.
    """
    rows = instances.read(dataset, split)
    chosen = selection.select(rows.instances, wanted, rows.unusable)
    if rows.unusable:
        say_once(rows.warning)  # a command checks a dataset before its flow does
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
            place = (cell.arm.name, cell.instance.instance_id, cell.repeat)
            if place == (arm, instance_id, repeat):
                return cell
        raise UsageError(
            f"experiment {self.experiment.name!r} does not plan repeat {repeat} of {instance_id}"
        )


async def prepare(experiment: Experiment, lake_path: str | None, *, runs_here: bool = True) -> Plan:
    """Load and select the instances, decide their environment and record the declaration.

    Without `runs_here`, workers run the cells, so this machine need not be able to.

    Raises:
        DatasetError, UsageError: the operator's input is invalid, for example a lake and a journal
            that do not belong together, or something that the cells need is missing.
        JournalError: the journal cannot be opened.
    """
    chosen, environment, lake = await check(experiment, lake_path, runs_here=runs_here)
    cells = plan(experiment, chosen, _get_place(experiment, environment))
    earlier = await asyncio.to_thread(EarlierAttempts.read, lake, experiment.name)
    refuse_outdated(cells, earlier)
    cells = [earlier.resume(cell) for cell in cells]
    await asyncio.to_thread(journals.claim, lake, experiment.name)
    again = await asyncio.to_thread(rebuys, cells, earlier, lake)
    declare(experiment, chosen, environment, lake)
    return Plan(experiment, environment, cells, lake, again)


async def check(
    experiment: Experiment, lake_path: str | None, *, runs_here: bool = True
) -> tuple[list[Instance], Environment, Lake]:
    """Return the instances, their environment and the lake, without recording a declaration.

    Raises:
        DatasetError, InvalidSpec, UsageError: the operator's input is invalid, or something that
            the cells need is missing. All that is missing is named, a line for each.
        JournalError: the journal cannot be opened.
    """
    for arm in experiment.arms:
        if isinstance(arm, PythonArm):
            python.load(arm.options.function)
        model = experiment.model_of(arm)
        if model is not None:
            arm.options.models(model)  # which checks roles and capabilities
    try:
        chosen = await asyncio.to_thread(load, experiment)
        if runs_here:
            environment = await workspaces.decide(experiment.environment, chosen)
            await refuse_excess(experiment.resources, chosen, environment)
        else:
            assert experiment.environment != "auto", "the experiment was validated"
            environment = experiment.environment
    except (DatasetError, UsageError) as error:
        find = partial(find_model_problems, calls_here=runs_here)
        if problems := await asyncio.to_thread(find, experiment, experiment.arms):
            raise UsageError(str(error), *problems) from error
        raise
    lake = Lake.open(lake_path)
    needs = Needs(experiment, environment, lake, runs_here=runs_here)
    is_missing = bool(await asyncio.to_thread(needs.find_missing, experiment.arms, chosen))
    if is_missing or (runs_here and probe.is_due(experiment)):
        cells = await asyncio.to_thread(_read_unsolved, needs, chosen)
        if is_missing:
            await asyncio.to_thread(_refuse_missing, needs, cells)
        if runs_here:
            await probe.refuse_unusable_models(experiment, cells)
    return chosen, environment, lake


def _read_unsolved(needs: Needs, chosen: list[Instance]) -> list[Cell]:
    """Return the cells that are not solved. Those of an earlier run need nothing."""
    lake = needs.lake
    return find_unsolved(read_cells(needs.experiment, chosen, needs.environment, lake), lake)


def read_cells(
    experiment: Experiment, chosen: list[Instance], environment: Environment, lake: Lake
) -> list[Cell]:
    """Return the cells of an experiment. One with an attempt in the lake resumes it."""
    cells = plan(experiment, chosen, _get_place(experiment, environment))
    earlier = EarlierAttempts.read(lake, experiment.name)
    return [earlier.resume(cell) for cell in cells]


def _refuse_missing(needs: Needs, cells: list[Cell]) -> None:
    """Check what cells need."""
    experiment = needs.experiment
    arms = [arm for arm in experiment.arms if any(cell.arm == arm for cell in cells)]
    places = {cell.instance.instance_id: cell.instance for cell in cells}
    if cells and (missing := needs.find_missing(arms, list(places.values()))):
        raise UsageError(*missing)


def _get_place(experiment: Experiment, environment: Environment) -> Place:
    return Place(environment, network=experiment.network, resources=experiment.resources)


def load(experiment: Experiment) -> list[Instance]:
    """Return the instances that an experiment selects.

    Raises:
        DatasetError: the dataset, a row or the selection cannot be used.
    """
    return select(experiment.dataset, experiment.split, experiment.select)


def only(experiment: Experiment, arm: str, instance_id: str) -> Experiment:
    """Return an experiment with the first attempt of one arm at one instance, run locally.

    A derived arm comes with its bases.

    Raises:
        DatasetError: the dataset has no such instance, or cannot be used.
        UsageError: the experiment has no such arm, or does not select the instance.
    """
    chosen = experiment.arm(arm)
    only_one = Selection(ids=[instance_id])
    rows = instances.read(experiment.dataset, experiment.split)
    selection.select(rows.instances, only_one, rows.unusable)  # raises if there is none
    selectable = selection.select(rows.instances, experiment.select, rows.unusable)
    selected = [instance.instance_id for instance in selectable]
    if instance_id not in selected:
        more = f" or {plural(len(selected) - _NAMED, 'other')}" if len(selected) > _NAMED else ""
        raise UsageError(
            f"experiment {experiment.name!r} does not select {instance_id}: name a selected one "
            f"({', '.join(selected[:_NAMED])}{more}), or add it to `select` in the file"
        )
    changes = {
        "arms": [chosen, *experiment.bases(chosen)],
        "select": only_one,
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
        default = experiment.model_of(arm)
        models = arm.options.models(default) if default else {}
        # The model of the arm, and the other models of single roles. Reports compare the text.
        names = {role: records.model_name(spec) for role, spec in models.items()}
        main = names.pop("", "none")
        others = [f"{role}: {name}" for role, name in names.items() if name != main]
        yield (
            arm.name,
            {
                "declared_at": declared_at,
                "declaration_digest": digest,
                "declaration": experiment.model_dump_json(),
                "arm_order": order,
                "agent": arm.agent,
                "model": ", ".join([main, *others]),
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


def declare(
    experiment: Experiment, chosen: list[Instance], environment: Environment, lake: Lake
) -> None:
    """Record the declaration, unless it equals the last one recorded.

    Another release can have recorded an equal one, with a digest computed differently or over fewer
    fields.
    """
    name, dataset_digest = experiment.name, instances.dataset_digest(chosen)
    digest = canonical_digest([experiment.defining, dataset_digest, environment])
    latest = lake.latest_unit("experiments", name)
    if latest.endswith(digest[:16]):
        return
    rows = lake.find("experiments", latest, name) if latest else []
    if rows and (rows[0]["dataset_digest"], rows[0]["environment"]) == (
        dataset_digest,
        environment,
    ):
        with suppress(ValidationError):  # it declares an import, or has fields that no longer exist
            if from_record(rows[0]["declaration"]).defining == experiment.defining:
                return
    now = datetime.now(UTC)
    unit = f"{now:%Y%m%dT%H%M%S%f}-{digest[:16]}"
    for arm, row in experiment_rows(experiment, chosen, digest, dataset_digest, environment, now):
        lake.write("experiments", name, arm, unit, [row])
