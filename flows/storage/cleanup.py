"""Remove workspaces and folders left behind by dead programs, before and after a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.errors import InfrastructureError
from agent.workspaces import janitor
from flows.display.terminal import say
from flows.storage import worker_folders
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake


@asynccontextmanager
async def swept(lake: Lake) -> AsyncIterator[None]:
    """Clean up before the block and after it, even if it fails.

    Raises:
        InfrastructureError: Docker or the journal does not answer before the block. After the block
            such an error is only printed, and the next cleanup removes the leftovers.
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
    """Remove containers, folders and images that are no longer used. Return one line for each."""
    removed = await janitor.sweep(await asyncio.to_thread(_active, lake))
    removed += await janitor.remove_snapshots(await _ended_snapshots(lake))
    folders = await asyncio.to_thread(worker_folders.abandoned)
    await asyncio.to_thread(worker_folders.remove, folders)
    return [*removed, *map(_of_worker, folders)]


async def _ended_snapshots(lake: Lake) -> list[str]:
    """Return the snapshot images of ended attempts of this lake, which no run will resume."""
    journal = existing_journal(lake)
    if journal is None:
        return []
    ended = [
        images
        for attempt_id, images in (await janitor.snapshots(journal.id)).items()
        if await asyncio.to_thread(journal.outcome, attempt_id) is not None
    ]
    return [image for images in ended for image in images]


async def leftovers(lake: Lake) -> list[str]:
    """Return a line for each container, folder or image that `sweep` would remove."""
    found = await janitor.find(await asyncio.to_thread(_active, lake))
    images = await _ended_snapshots(lake)
    folders = await asyncio.to_thread(worker_folders.abandoned)
    return [
        *map(str, found),
        *(f"image {image}: of an attempt that has ended" for image in images),
        *map(_of_worker, folders),
    ]


def _of_worker(folder: Path) -> str:
    return f"folder {folder}: of a killed Prefect worker"


def _active(lake: Lake) -> set[str]:
    """Return the ids of active attempts."""
    journal = existing_journal(lake)
    return journal.active() if journal else set()
