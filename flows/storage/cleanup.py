"""What dead programs left of their workspaces is removed before and after a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import InfrastructureError
from agent.workspaces import janitor
from flows.display.terminal import say
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake


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
    """Remove what nobody uses any more; a line for each container, folder or image."""
    removed = await janitor.sweep(await asyncio.to_thread(_living, lake))
    return [*removed, *await janitor.remove_snapshots(await _ended_snapshots(lake))]


async def _ended_snapshots(lake: Lake) -> list[str]:
    """Images that attempts of this lake were kept as which have ended: nobody goes on there.

    Those of attempts that its journal does not know may be another lake's.
    """
    journal = existing_journal(lake)
    if journal is None:
        return []
    ended = [
        images
        for attempt_id, images in (await janitor.snapshots()).items()
        if await asyncio.to_thread(journal.outcome, attempt_id) is not None
    ]
    return [image for images in ended for image in images]


async def leftovers(lake: Lake) -> list[str]:
    """A line for each container, folder or image that `sweep` would remove."""
    found = await janitor.find(await asyncio.to_thread(_living, lake))
    images = await _ended_snapshots(lake)
    return [*map(str, found), *(f"image {image}: of an attempt that has ended" for image in images)]


def _living(lake: Lake) -> set[str]:
    """The attempts that somebody works on."""
    journal = existing_journal(lake)
    return journal.living() if journal else set()
