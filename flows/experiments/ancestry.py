"""Steps, paths and the folder that an attempt inherits from its ancestors."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from agent.arms.durable.options import RoleModel
from agent.errors import InfrastructureError
from agent.journal import Journal, RecordedStep
from agent.journal.holding import hold_lease
from agent.session.reuse import Reuse, Rules, fingerprint
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_id_of, model_in_key


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
