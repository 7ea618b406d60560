"""Steps, paths and the folder that an attempt has from those that it was forked or derived from."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import InfrastructureError
from agent.journal import Journal
from agent.journal.holding import held
from agent.session.reuse import Reuse, Rules
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_key


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
    steps = journal.steps(attempt.parent_id)
    return Reuse(attempt.parent_id, steps, Rules.from_text(attempt.reuse))


@asynccontextmanager
async def alone_in_folder(cell: Cell, journal: Journal) -> AsyncIterator[None]:
    """Let no other descendant of the same attempt use its folder on the host during the block.

    The paths of that folder are in the conversations that they share.

    Raises:
        LeaseHeld: another one is using it.
    """
    attempt_id = attempt_key(cell)[:32]
    start = attempt_id if cell.base is None else attempt_key(cell.base)[:32]
    is_on_host = cell.place.environment == "host"
    origin = await asyncio.to_thread(origin_of, journal, start) if is_on_host else attempt_id
    if origin == attempt_id:
        yield
        return
    folder = f"folder-of-{origin}"
    await asyncio.to_thread(journal.offer, folder)
    async with held(journal, folder):
        yield
