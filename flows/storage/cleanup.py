"""Remove workspaces and folders left behind by dead programs, before and after a run."""

import asyncio
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agent.errors import InfrastructureError
from agent.workspaces import janitor
from flows.display.terminal import say
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake

_ATTEMPTS = "prefect-workspace-attempt-*"
"""The folder of a flow run with its settings; the command line of its process names it."""

_ROOT = re.compile(r"tmp[a-z0-9_]{8}prefect")
"""Name of the working folder of a flow run, which its settings name."""

_YOUNG_S = 60.0
"""The process of a younger folder may not have started yet."""

_PROCESSES = Path("/proc")


def list_abandoned() -> list[Path]:
    """Return the folders of flow runs whose processes have ended; none without a list of processes.

    They contain the environment of the flow run, with its keys.
    """
    if not _PROCESSES.is_dir():
        return []
    own = [each for each in Path(tempfile.gettempdir()).glob(_ATTEMPTS) if _is_own_and_old(each)]
    if not own:
        return []
    running = _command_lines()
    dead = [each for each in own if os.fsencode(each) not in running]
    return [*dead, *(root for each in dead if (root := _root(each)))]


def remove(folders: list[Path]) -> None:
    """Remove folders. Another program may remove them at the same time."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _is_own_and_old(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:  # it was just removed
        return False
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S


def _command_lines() -> bytes:
    """Return the command lines of all processes."""
    lines = []
    for path in _PROCESSES.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has just ended
            lines.append(path.read_bytes())
    return b"\n".join(lines)


def _root(attempt: Path) -> Path | None:
    """Return the working folder that Prefect made for a flow run, if it is still there."""
    try:
        root = Path(json.loads((attempt / "supervisor.json").read_text())["workspace_root"])
    except (OSError, ValueError, KeyError):
        return None
    is_made = _ROOT.fullmatch(root.name) and root.parent == attempt.parent.resolve()
    return root if is_made and root.is_dir() else None


@asynccontextmanager
async def clean_up_around(lake: Lake) -> AsyncIterator[None]:
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
    removed += await janitor.remove_snapshots(await _list_ended_snapshots(lake))
    folders = await asyncio.to_thread(list_abandoned)
    await asyncio.to_thread(remove, folders)
    return [*removed, *map(_of_worker, folders)]


async def _list_ended_snapshots(lake: Lake) -> list[str]:
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
    images = await _list_ended_snapshots(lake)
    folders = await asyncio.to_thread(list_abandoned)
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
