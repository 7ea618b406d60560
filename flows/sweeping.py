"""What dead programs left of their workspaces is removed before and after a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import InfrastructureError
from agent.workspaces import janitor
from flows.journals import existing_journal
from flows.lake import Lake
from flows.progress import say


@asynccontextmanager
async def swept(lake: Lake) -> AsyncIterator[None]:
    """Sweep before the block and after it, however it ends.

    Raises:
        InfrastructureError: what has to be asked does not answer, before the block. After it,
            that hides nothing: what is left is for the next sweep.
    """
    await sweep(lake)
    try:
        yield
    finally:
        try:
            await sweep(lake)
        except InfrastructureError as error:
            say(f"leftovers stay until the next run: {error}")


async def sweep(lake: Lake) -> list[str]:
    """Remove what nobody uses any more; a line for each container or folder."""
    return await janitor.sweep(await asyncio.to_thread(_living, lake))


async def leftovers(lake: Lake) -> list[str]:
    """A line for each container or folder that `sweep` would remove."""
    return [str(found) for found in await janitor.find(await asyncio.to_thread(_living, lake))]


def _living(lake: Lake) -> set[str]:
    """The attempts that somebody works on."""
    journal = existing_journal(lake)
    return journal.living() if journal else set()
