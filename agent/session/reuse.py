"""Steps of another attempt that answer steps of this attempt, where all their inputs are the same.

The arm runs again from the top. A step at the same position answers if it had the same request and
the same inputs: for a model call its model, for work in the workspace the tree at its
start, the image and the settings. A step with the same result ends the differences there.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Self

from agent.errors import place
from agent.journal import Inputs, RecordedStep

REUSED_KINDS = ("model", "command", "action", "event")
"""Kinds of steps that can answer. Time limits depend on the run; most readings state no inputs."""

PEOPLE = "people"
"""The inputs of messages from people, which depend on nothing else."""


@dataclass(frozen=True)
class Origins:
    """Digests of all that decides the results of an attempt besides its requests."""

    models: Mapping[str, str] = field(default_factory=dict)
    """By role, of the model's specification. The empty role is for all others."""
    place: str = ""
    """Of the instance, the image, the network and the agent's version."""

    def of_call(self, role: str) -> str | None:
        """Return the digest of a model call's inputs, or None if it is unknown."""
        return self.models.get(role, self.models.get(""))

    def of_work(self, depends_on: Any) -> str | None:
        """Return the digest of the inputs of work in the workspace, or None if it is unknown."""
        if not self.place or depends_on is None:
            return None
        return fingerprint([self.place, depends_on])


@dataclass(frozen=True)
class Rules:
    """Rules for the use of a parent's steps. Their text form is kept with the fork."""

    edits: Mapping[str, str] = field(default_factory=dict)
    """By step, such as `step-2/3`: a result as JSON text, which replaces the recorded one."""
    never: Sequence[str] = ()
    """Regular expressions of commands that are always run again."""

    def to_text(self) -> str:
        """Return the rules as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the rules that `to_text` returned."""
        return cls(**json.loads(text))

    def forbids(self, request: bytes) -> bool:
        """Return True if the request of a step holds a command that is always run again.

        The code of a cell counts as one.
        """
        if not self.never:
            return False
        content = json.loads(request.decode("utf-8", "surrogatepass"))
        arguments = content.get("arguments")
        if isinstance(arguments, str):
            command = arguments
        else:
            fields = arguments if isinstance(arguments, dict) else content
            command = str(fields.get("command") or fields.get("code") or "")
        return any(re.search(pattern, command) for pattern in self.never)


class Reuse:
    """The recorded steps of a parent, for one fork of it."""

    def __init__(self, parent_id: str, steps: Sequence[RecordedStep], rules: Rules) -> None:
        self.parent_id = parent_id
        self._steps = {(step.scope, step.seq): step for step in steps}
        self._rules = rules

    def answer(
        self, scope: str, seq: int, kind: str, digest: str, inputs: Inputs
    ) -> RecordedStep | None:
        """Return the step that answers, with the result that it then has, or None."""
        step = self._steps.get((scope, seq))
        if step is None or step.result is None or step.kind not in REUSED_KINDS:
            return None
        if (step.kind, step.digest) != (kind, digest) or step.result.startswith(b'{"cut_off"'):
            return None
        before, now = step.inputs.began_at, inputs.began_at
        if before is None or now is None:
            return None
        if step.inputs.digest is None or step.inputs.digest != inputs.digest:
            return None
        # A delta can be stored under several names, so it does not count.
        same_tree = (before.tree, before.image) == (now.tree, now.image)
        if not (kind in ("model", "event") or same_tree) or self._rules.forbids(step.request):
            return None
        return step

    def request(self, scope: str, seq: int) -> bytes | None:
        """Return the request of the parent's step at a position, or None if it has none there."""
        step = self._steps.get((scope, seq))
        return None if step is None else step.request

    def get_edit(self, scope: str, seq: int) -> bytes | None:
        """Return the result that replaces the one of a step, or None."""
        text = self._rules.edits.get(place(scope, seq))
        return None if text is None else text.encode("utf-8", "surrogatepass")


def fingerprint(value: Any) -> str:
    """Return the digest of JSON values, dataclasses and sets, the same in every process.

    Raises:
        TypeError: the value holds anything else.
    """
    text = json.dumps(value, sort_keys=True, default=_plain, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {"": type(value).__name__, **{name: getattr(value, name) for name in vars(value)}}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} cannot be compared between runs")
