"""A selective fork: the arm runs again, and its recorded steps answer where nothing changed."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.graph.attempt import role_of
from agent.journal import Attempt, Journal, RecordedStep
from agent.session.mail import INBOX
from agent.session.reuse import Rules
from agent.session.steps import canonical
from eval.errors import ImageError
from eval.image_store import ImageStore
from flows.display.errors import UsageError
from flows.experiments.ancestry import steps_to_reuse
from flows.experiments.arms import ArmSpec, merged
from flows.experiments.cells import Cell, Place
from flows.experiments.declaration import Experiment
from flows.experiments.earlier import EarlierAttempts
from flows.experiments.forking import (
    Fork,
    changed_child,
    child_attempt,
    declared,
    declared_options,
    parent_of,
)
from flows.experiments.keys import in_key, model_origins
from flows.experiments.plan import load
from flows.storage.images import cache_folder
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from reports.format import usd_of_calls


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
    """The parent's, in the order in which they began."""
    original: Experiment
    child: Experiment
    rules: Rules
    is_elsewhere: bool = False
    """True if work in the workspace may begin with another image, instance or agent version."""

    @property
    def first_changed(self) -> int:
        """Index of the first step that may come out otherwise.

        What follows from it cannot be known before it is run, so all later steps may differ too.
        """
        before, after = self.original.arm(self.parent.arm), self.child.arm(self.parent.arm)
        if _settings(before) != _settings(after):
            return 0
        models = model_origins(self.child, after)
        for index, step in enumerate(self.steps):
            if self._may_differ(step, models):
                return index
        return len(self.steps)

    def _may_differ(self, step: RecordedStep, models: Mapping[str, str]) -> bool:
        if step.kind == "event":  # it follows from the steps before it
            return _is_message(step)
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
        """Return how many of the parent's calls may be bought again, at most, and their cost."""
        calls = [step for step in self.steps if step.kind == "model"]
        later = [step for step in self.steps[self.first_changed :] if step.kind == "model"]
        kept = len(self.steps[: self.first_changed])
        return (
            f"at most {len(later)} of {len(calls)} calls are bought again, "
            f"{_usd(later)} of {_usd(calls)}, and whatever the change adds; "
            f"at least {kept} of {len(self.steps)} steps are reused"
        )


def check(prefix: str, lake_path: str | None, changes: Changes) -> Selective:
    """Return the selective fork of the attempt whose id begins with `prefix`. Write nothing.

    Raises:
        DatasetError: the instances cannot be loaded.
        UsageError: the attempt, a step or the declaration does not exist, the steps were pruned, a
            file is no result of its step, or nothing would change.
    """
    lake, journal, parent = parent_of(prefix, lake_path)
    steps = sorted(steps_to_reuse(journal, parent.attempt_id), key=lambda step: step.ordinal)
    rules = Rules(_edits(parent, steps, changes.edits), _patterns(changes.never))
    original = declared(lake, parent)
    before = original.arm(parent.arm)
    own = {name: value for name, value in changes.arm.items() if name != "model"}
    options = merged(declared_options(before.options), own)
    child = changed_child(original, parent, changes.arm.get("model"), options)
    after = child.arm(parent.arm)
    same = _settings(before) == _settings(after) and model_origins(
        original, before
    ) == model_origins(child, after)
    if same and not rules.edits and not rules.never:
        raise UsageError(
            f"this changes nothing of attempt {parent.attempt_id}: the arm {parent.arm} has these "
            "values already"
        )
    elsewhere = _is_elsewhere(lake, parent, original)
    return Selective(lake, parent, steps, original, child, rules, elsewhere)


def _is_elsewhere(lake: Lake, parent: Attempt, original: Experiment) -> bool:
    """Return True unless work in the workspace would begin just as the parent's did."""
    rows = lake.read("attempts", parent.experiment, parent.arm, parent.attempt_id)
    known = (each for each in load(original) if each.instance_id == parent.instance_id)
    instance = next(known, None)
    if not rows or instance is None:
        return True
    place = Place(
        rows[0]["environment"],
        rows[0]["image_digest"],
        original.network,
        resources=original.resources,
    )
    cell = Cell(original, original.arm(parent.arm), instance, parent.repeat, place)
    matches = EarlierAttempts.read(lake, original.name).matches(cell)
    if all(match.found.attempt.attempt_id != parent.attempt_id for match in matches):
        return True
    return place.environment == "docker" and _local_image(instance.image) != place.image_digest


def _local_image(image: str) -> str | None:
    """Return the id of a local image, or None if it is missing or no daemon answers."""
    try:
        return ImageStore(cache_folder()).find([image]).get(image)
    except ImageError:
        return None


def fork(request: Selective) -> Fork:
    """Make an attempt that reuses the steps of its parent while it is solved.

    Raises:
        DatasetError, UsageError: the instance cannot be prepared.
    """
    parent, child = request.parent, request.child
    attempt = child_attempt(request.lake, parent, child)
    forked = replace(attempt, parent_id=parent.attempt_id, reuse=request.rules.to_text())
    open_journal(request.lake).start(forked)
    return Fork(child, parent.arm, parent.instance_id, 0, attempt.attempt_id)


def used(journal: Journal, parent: Attempt, child_id: str) -> str:
    """Return what a fork reused, bought again and bought in addition: calls and their cost."""
    places = {step.place for step in journal.steps(parent.attempt_id)}
    made = journal.steps(child_id)
    calls = [step for step in made if step.kind == "model"]
    reused = [step for step in calls if step.copied]
    again = [step for step in calls if not step.copied and step.place in places]
    new = [step for step in calls if not step.copied and step.place not in places]
    kept = sum(step.copied for step in made)
    parts = [("reused", reused), ("bought again", again), ("new", new)]
    told = "; ".join(f"{name} {len(found)} ({_usd(found)})" for name, found in parts)
    return f"calls: {told}; {kept} of {len(made)} steps reused"


def _is_message(step: RecordedStep) -> bool:
    """Return True if the step read a message of a person, which a fork does not get."""
    if step.result is None or json.loads(step.request).get("event") != INBOX:
        return False
    return bool(json.loads(step.result)["content"])


def _usd(calls: Sequence[RecordedStep]) -> str:
    return usd_of_calls(call.cost_usd for call in calls)


def _settings(arm: ArmSpec) -> dict[str, Any]:
    """Return the options of an arm without its models."""
    kept: dict[str, Any] = in_key(arm.options)
    kept.pop("roles", None)
    profile = kept.get("profile")
    if isinstance(profile, dict):
        kept["profile"] = {name: each for name, each in profile.items() if name != "roles"}
    return kept


def _patterns(never: Sequence[str]) -> tuple[str, ...]:
    for pattern in never:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--never {pattern!r} is no regular expression: {error}") from None
    return tuple(never)


def _edits(
    parent: Attempt, steps: Sequence[RecordedStep], files: Mapping[str, Path]
) -> dict[str, str]:
    known = {step.place: step for step in steps if step.result is not None}
    edits = {}
    for name, path in files.items():
        if name not in known:
            raise UsageError(
                f"attempt {parent.attempt_id} has no step {name} with a result; `durabench trace` "
                "lists them"
            )
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        edits[name] = _edited(known[name], name, path, text)
    return edits


def _edited(step: RecordedStep, name: str, path: Path, text: str) -> str:
    """Return the result of a step with what a file says in place of the recorded."""
    assert step.result is not None, "it is one with a result"
    result = json.loads(step.result.decode("utf-8", "surrogatepass"))
    match step.kind:
        case "model" if "message" in result:
            result["message"] = _message(result["message"], text)
        case "command" if "output" in result:
            result["output"] = text
        case "action" if "content" in result:
            result["content"] = _content(result["content"], name, path, text)
        case _:
            raise UsageError(f"step {name} was cut off and has no result to edit")
    return canonical(result).decode("utf-8", "surrogatepass")


def _message(recorded: dict[str, Any], text: str) -> dict[str, Any]:
    """Return an edited message: a whole one as JSON, or its text alone."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict) and "role" in given:
        return given
    kept = {key: value for key, value in recorded.items() if key != "tool_calls"}
    return {**kept, "content": text}


def _content(recorded: Any, name: str, path: Path, text: str) -> Any:
    if isinstance(recorded, str):
        return text
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is no result of step {name}, which is JSON: {error}") from None
    if type(given) is not type(recorded) or (
        isinstance(given, dict) and given.keys() != recorded.keys()
    ):
        keys = f" with {', '.join(sorted(recorded))}" if isinstance(recorded, dict) else ""
        raise UsageError(
            f"{path} is no result of step {name}: give JSON of type "
            f"{type(recorded).__name__}{keys}, as `durabench graph --format json` shows"
        )
    return given
