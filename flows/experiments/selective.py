"""A selective fork: the arm runs again, and its recorded steps answer where nothing changed.

An attempt inherits steps, paths and its folder from its ancestors.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.arms.durable.options import RoleModel
from agent.errors import InfrastructureError
from agent.graph.attempt import role_of
from agent.journal import Attempt, Journal, RecordedStep
from agent.journal.holding import hold_lease
from agent.session.mail import INBOX
from agent.session.reuse import Reuse, Rules, fingerprint
from agent.session.steps import canonical
from eval.errors import ImageError
from eval.image_store import ImageStore
from flows.display.errors import UsageError
from flows.experiments.arms import ArmSpec, merge_options
from flows.experiments.cells import Cell, Place
from flows.experiments.declaration import Experiment
from flows.experiments.earlier import EarlierAttempts
from flows.experiments.forking import (
    forecast,
    get_declared_options,
    load_declaration,
    make_child,
    parent_of,
    sum_costs,
)
from flows.experiments.keys import attempt_id_of, in_key, model_in_key, model_origins
from flows.experiments.plan import load
from flows.experiments.unfinished import OwnAttempt, find_or_start
from flows.storage.images import cache_folder
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from reports.format import plural


def origin_of(journal: Journal, attempt_id: str) -> str:
    """Return the id of the original attempt of a chain of forks.

    Its paths appear in the conversation.
    """
    while (attempt := journal.attempt(attempt_id)) is not None and attempt.parent_id is not None:
        attempt_id = attempt.parent_id
    return attempt_id


def reuse_of(journal: Journal, attempt_id: str) -> Reuse | None:
    """Return the steps of its parent that may answer a fork's, or None for any other attempt.

    Raises:
        InfrastructureError: the parent's steps were pruned.
    """
    attempt = journal.attempt(attempt_id)
    if attempt is None or attempt.parent_id is None or attempt.reuse is None:
        return None
    is_gone = journal.attempt(attempt.parent_id) is None
    if is_gone or journal.pruned_at(attempt.parent_id) is not None:
        raise InfrastructureError(
            f"attempt {attempt_id} reuses steps of {attempt.parent_id}, which were pruned "
            "meanwhile: fork another attempt; for a derived arm, run under another --name",
            retryable=False,
        )
    steps = steps_to_reuse(journal, attempt.parent_id)
    return Reuse(attempt.parent_id, steps, Rules.from_text(attempt.reuse))


def steps_to_reuse(journal: Journal, attempt_id: str) -> list[RecordedStep]:
    """Return the steps of an attempt with the inputs that they would be recorded with now.

    Earlier releases recorded how a model was reached among the inputs of its calls.
    """
    now = dict[str, str]()
    ancestor: str | None = attempt_id
    while ancestor is not None and (attempt := journal.attempt(ancestor)) is not None:
        for model in _litellm_models(json.loads(attempt.spec)):
            now[fingerprint(model)] = fingerprint(model_in_key(model))
        ancestor = attempt.parent_id
    return [
        replace(step, inputs=replace(step.inputs, digest=now[step.inputs.digest]))
        if step.inputs.digest in now
        else step
        for step in journal.steps(attempt_id)
    ]


def _litellm_models(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the models of all roles of a recorded agent, as JSON values."""
    default = spec.get("model") or {}

    def within(value: Any) -> Iterator[Mapping[str, Any]]:
        if not isinstance(value, dict):
            return
        if value.get("provider") == "litellm":
            yield value
        if value.keys() == RoleModel.model_fields.keys():
            changed = {name: inner for name, inner in value.items() if inner is not None}
            yield {**changed.pop("model", default), **changed}
        for inner in value.values():
            yield from within(inner)

    yield from within(dict(spec))


@asynccontextmanager
async def alone_in_folder(cell: Cell, journal: Journal) -> AsyncIterator[None]:
    """Let no other descendant of the same attempt use its folder on the host during the block.

    The paths of that folder are in the conversations that they share.

    Raises:
        LeaseHeld: another one is using it.
    """
    attempt_id = attempt_id_of(cell)
    start = attempt_id if cell.base is None else attempt_id_of(cell.base)
    is_on_host = cell.place.environment == "host"
    origin = await asyncio.to_thread(origin_of, journal, start) if is_on_host else attempt_id
    if origin == attempt_id:
        yield
        return
    folder = f"folder-of-{origin}"
    await asyncio.to_thread(journal.offer, folder)
    async with hold_lease(journal, folder):
        yield


@dataclass(frozen=True)
class Changes:
    """The differences of a selective fork from its parent."""

    arm: Mapping[str, Any]
    """Changed options of the arm, and its `model`."""
    edits: Mapping[str, Path]
    """By step, the file with its other result."""
    never: Sequence[str] = ()
    """Regular expressions of commands that are always run again."""


@dataclass(frozen=True)
class Selective:
    """A selective fork: the parent attempt, its steps, and both experiments."""

    lake: Lake
    parent: Attempt
    steps: list[RecordedStep]
    """The parent's, in the order in which they started."""
    original: Experiment
    child: Experiment
    rules: Rules
    is_elsewhere: bool = False
    """True if work in the workspace can start with another image, instance or agent version."""

    @property
    def first_changed(self) -> int:
        """Index of the first step that can have another result, as can all later steps."""
        before, after = self.original.arm(self.parent.arm), self.child.arm(self.parent.arm)
        if _settings(before) != _settings(after):
            return 0
        models = model_origins(self.child, after)
        changed = (at for at, step in enumerate(self.steps) if self._can_differ(step, models))
        return next(changed, len(self.steps))

    def _can_differ(self, step: RecordedStep, models: Mapping[str, str]) -> bool:
        if step.kind == "event":
            # A fork does not get the messages of a person. Other events follow from earlier steps.
            is_inbox = json.loads(step.request).get("event") == INBOX
            return is_inbox and step.result is not None and bool(json.loads(step.result)["content"])
        if step.inputs.began_at is None or step.inputs.digest is None or step.result is None:
            return True
        if step.place in self.rules.edits or self.rules.forbids(step.request):
            return True
        if step.kind in ("command", "action") and self.is_elsewhere:
            return True
        if step.kind == "model":
            return step.inputs.digest != models.get(role_of(step) or "", models.get(""))
        return step.kind == "limit"

    def forecast(self) -> str:
        """Return the maximum number of the parent's calls to buy again, and their cost."""
        return forecast(self.steps, self.first_changed)


def check(prefix: str, lake_path: str | None, changes: Changes) -> Selective:
    """Return the selective fork of the attempt whose id starts with `prefix`. Write nothing.

    Raises:
        DatasetError: the instances cannot be loaded.
        UsageError: the attempt, a step or the declaration does not exist, the steps were pruned, a
            file is not a result of its step, or nothing would change.
    """
    lake, journal, parent = parent_of(prefix, lake_path)
    steps = sorted(steps_to_reuse(journal, parent.attempt_id), key=lambda step: step.ordinal)
    for pattern in changes.never:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--never {pattern!r} is not a regular expression: {error}") from None
    rules = Rules(_edits(parent, steps, changes.edits), tuple(changes.never))
    original = load_declaration(lake, parent)
    before = original.arm(parent.arm)
    changed = {name: value for name, value in changes.arm.items() if name != "model"}
    options = merge_options(get_declared_options(before.options), changed)
    child = make_child(original, parent, changes.arm.get("model"), options)
    after = child.arm(parent.arm)
    has_same_models = model_origins(original, before) == model_origins(child, after)
    is_same = has_same_models and _settings(before) == _settings(after)
    if is_same and not rules.edits and not rules.never:
        raise UsageError(
            f"this changes nothing of attempt {parent.attempt_id}: the arm {parent.arm} has these "
            "values already"
        )
    is_elsewhere = _is_elsewhere(lake, parent, original)
    return Selective(lake, parent, steps, original, child, rules, is_elsewhere)


def _is_elsewhere(lake: Lake, parent: Attempt, original: Experiment) -> bool:
    """Return True unless work in the workspace would start exactly like the parent's."""
    rows = lake.read("attempts", parent.experiment, parent.arm, parent.attempt_id)
    instances = {instance.instance_id: instance for instance in load(original)}
    instance = instances.get(parent.instance_id)
    if not rows or instance is None:
        return True
    environment, digest = rows[0]["environment"], rows[0]["image_digest"]
    place = Place(environment, digest, original.network, original.resources)
    cell = Cell(original, original.arm(parent.arm), instance, parent.repeat, place)
    matches = EarlierAttempts.read(lake, original.name).matches(cell)
    if all(match.watched.attempt.attempt_id != parent.attempt_id for match in matches):
        return True
    if place.environment != "docker":
        return False
    try:
        local = ImageStore(cache_folder()).find([instance.image])
    except ImageError:  # no daemon answers
        return place.image_digest is not None
    return local.get(instance.image) != place.image_digest


def fork(request: Selective) -> OwnAttempt:
    """Make an attempt that reuses the steps of its parent while it is solved.

    The same fork that has not finished is continued.

    Raises:
        DatasetError, UsageError: the instance cannot be prepared.
    """
    parent, lake = request.parent, request.lake
    reuse = request.rules.to_text()
    own = find_or_start(
        request.child, parent.arm, str(lake.root), parent_id=parent.attempt_id, reuse=reuse
    )
    open_journal(lake).start(own.attempt)
    return own


def summarise_fork(journal: Journal, parent: Attempt, child_id: str) -> str:
    """Return what a fork reused, bought again and bought in addition: calls and their cost."""
    places = {step.place for step in journal.steps(parent.attempt_id)}
    steps = journal.steps(child_id)
    calls = [step for step in steps if step.kind == "model"]
    bought = [step for step in calls if not step.copied]
    parts = {
        "reused": [step for step in calls if step.copied],
        "bought again": [step for step in bought if step.place in places],
        "new": [step for step in bought if step.place not in places],
    }
    counts = "; ".join(f"{name} {len(part)} ({sum_costs(part)})" for name, part in parts.items())
    reused = sum(step.copied for step in steps)
    return f"calls: {counts}; {reused} of {plural(len(steps), 'step')} reused"


def _settings(arm: ArmSpec) -> dict[str, Any]:
    """Return the options of an arm without its models."""
    settings: dict[str, Any] = in_key(arm.options)
    settings.pop("roles", None)
    if isinstance(settings.get("profile"), dict):
        settings["profile"].pop("roles", None)
    return settings


def _edits(
    parent: Attempt, steps: Sequence[RecordedStep], files: Mapping[str, Path]
) -> dict[str, str]:
    by_place = {step.place: step for step in steps if step.result is not None}
    edits = {}
    for name, path in files.items():
        if name not in by_place:
            raise UsageError(
                f"attempt {parent.attempt_id} has no step {name} with a result; `durabench trace` "
                "lists them"
            )
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        edits[name] = _edit(by_place[name], name, path, text)
    return edits


def _edit(step: RecordedStep, name: str, path: Path, text: str) -> str:
    """Return the result of a step with the content of a file in place of the recorded content."""
    assert step.result is not None, "its place was found among steps with a result"
    result = json.loads(step.result.decode("utf-8", "surrogatepass"))
    match step.kind:
        case "model" if "message" in result:
            result["message"] = _edit_message(result["message"], text)
        case "command" if "output" in result:
            result["output"] = text
        case "action" if isinstance(result.get("content"), str):
            result["content"] = text
        case "action" if "content" in result:
            result["content"] = _parse_content(result["content"], name, path, text)
        case _:
            raise UsageError(f"step {name} was cut off and has no result to edit")
    return canonical(result).decode("utf-8", "surrogatepass")


def _edit_message(recorded: dict[str, Any], text: str) -> dict[str, Any]:
    """Return an edited message: a whole one as JSON, or its text alone."""
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if isinstance(message, dict) and "role" in message:
        return message
    without_calls = {key: value for key, value in recorded.items() if key != "tool_calls"}
    return {**without_calls, "content": text}


def _parse_content(recorded: Any, name: str, path: Path, text: str) -> Any:
    """Parse the edited content of an action, which must have the form of the recorded content."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{path} is not a result of step {name}, which must be JSON: {error}"
        ) from None
    is_object = isinstance(recorded, dict)
    if type(content) is not type(recorded) or (is_object and content.keys() != recorded.keys()):
        keys = f" with {', '.join(sorted(recorded))}" if is_object else ""
        raise UsageError(
            f"{path} is not a result of step {name}: give JSON of type "
            f"{type(recorded).__name__}{keys}, as `durabench graph --format json` shows"
        )
    return content
