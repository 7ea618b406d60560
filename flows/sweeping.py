"""What dead programs left of their workspaces is removed before and after a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.workspaces import janitor
from flows.journals import existing_journal
from flows.lake import Lake


@asynccontextmanager
async def swept(lake: Lake) -> AsyncIterator[None]:
    """Sweep before the block and after it, however it ends."""
    await sweep(lake)
    try:
        yield
    finally:
        await sweep(lake)


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
