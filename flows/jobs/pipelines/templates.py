"""Templates in tasks: `{{steps.NAME.output.KEY}}` stands for what an earlier step left."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flows.jobs.request import MOST_CHARACTERS

KEYS = {
    "summary": "what the step's arm says about its work",
    "patch": "its change, as a diff",
    "files": "the changed files, one in a line",
    "verdict": "verified, not_verified or regressed",
    "reason": "the reason for the verdict",
    "arm": "the arm whose patch was chosen",
    "commit": "the commit of the patch",
    "job": "the id of the step's job",
}
"""The outputs of a step, with their meanings."""

_TEMPLATE = re.compile(r"\{\{\s*steps\.(?P<text>[^{}]*?)\s*\}\}")
_USE = re.compile(r"(?P<step>[A-Za-z0-9_-]+)\.output\.(?P<key>[A-Za-z0-9_-]+)")


class MissingOutput(Exception):
    """A step left no output that its task could use. The step that uses it fails."""


@dataclass(frozen=True)
class OutputUse:
    """One use of an output."""

    step: str
    key: str


def uses(task: str) -> list[OutputUse]:
    """Return the outputs that a task uses, in order.

    Raises:
        ValueError: a template is not of the form, or its key is unknown.
    """
    return [_use(found) for found in _TEMPLATE.finditer(task)]


def _use(found: re.Match[str]) -> OutputUse:
    use = _USE.fullmatch(found["text"])
    if use is None:
        raise ValueError(f"{found[0]} is no template: write {{{{steps.NAME.output.KEY}}}}")
    if use["key"] not in KEYS:
        raise ValueError(f"{found[0]}: steps have no output {use['key']!r} but {', '.join(KEYS)}")
    return OutputUse(use["step"], use["key"])


def filled(task: str, outputs: Mapping[str, Mapping[str, str | None]]) -> str:
    """Return a task with outputs in place of its templates.

    Raises:
        MissingOutput: a step has no such output, such as one that failed, or the task is too long
            with it.
    """

    def output(found: re.Match[str]) -> str:
        use = _use(found)
        value = outputs.get(use.step, {}).get(use.key)
        if value is None:
            raise MissingOutput(f"step {use.step} left no {use.key}, which its task needs")
        return value

    whole = _TEMPLATE.sub(output, task)
    if len(whole) > MOST_CHARACTERS:
        raise MissingOutput(
            f"its task has {len(whole):,} characters with the outputs of other steps, and at most "
            f"{MOST_CHARACTERS:,} are allowed"
        )
    return whole
