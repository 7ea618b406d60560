"""Columns of `attempts` about the programs of command arms."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.arms.command import SCOPE
from agent.arms.command.recipe import CommandOptions
from agent.arms.options import ArmOptions
from agent.session.steps import Step
from eval.digests import canonical_digest
from flows.storage.lake import Row

NO_PROGRAM: Row = {
    "claimed_usd": None,
    "restarts": None,
    "answered_from_record": None,
    "loosened_calls": None,
    "unused_calls": None,
    "first_difference": None,
    "refused_tools": None,
    "first_request_s": None,
    "agent_version": None,
    "recipe_digest": None,
}
"""The columns of an attempt that ran no external program."""


def columns(options: ArmOptions, program: Mapping[str, Any], steps: Iterable[Step]) -> Row:
    """Return the columns of an attempt. `program` is its `ProgramRun`; empty if it did not end."""
    if not isinstance(options, CommandOptions):
        return NO_PROGRAM
    recipe = options.program.model_dump(mode="json", exclude_defaults=True)
    row = {name: program.get(name) for name in NO_PROGRAM}
    row["recipe_digest"] = canonical_digest(recipe)
    starts = sum(step.scope == SCOPE and step.request.get("action") == "begin" for step in steps)
    row["restarts"] = max(starts - 1, 0)
    if program:
        row["refused_tools"] = sum(program.get("server_tools", {}).values())
        row["unused_calls"] = len(program.get("unused_calls", ()))
        if "loosened" in program:  # not in attempts of earlier releases
            row["loosened_calls"] = len(program["loosened"])
            row["first_difference"] = _describe(program["first_difference"])
    return row


def _describe(difference: Mapping[str, str] | None) -> str | None:
    """Return the first difference of a call that was bought twice as one line."""
    if difference is None:
        return None
    return f"{difference['place']}: {difference['before']!r} became {difference['after']!r}"
