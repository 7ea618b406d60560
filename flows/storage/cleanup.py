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
    attempts = []
    for folder in Path(tempfile.gettempdir()).glob(_ATTEMPTS):
        with suppress(OSError):  # it was just removed
            status = folder.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S:
                attempts.append(folder)
    if not attempts:
        return []
    command_lines = []
    for path in _PROCESSES.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has just ended
            command_lines.append(path.read_bytes())
    running = b"\n".join(command_lines)
    dead = [folder for folder in attempts if os.fsencode(folder) not in running]
    return [*dead, *(root for folder in dead if (root := _root(folder)))]


def remove(folders: list[Path]) -> None:
    """Remove folders. Another program may remove them at the same time."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _root(attempt: Path) -> Path | None:
    """Return the working folder that Prefect created for a flow run, if it still exists."""
    try:
        root = Path(json.loads((attempt / "supervisor.json").read_text())["workspace_root"])
    except (OSError, ValueError, KeyError):
        return None
    is_of_prefect = _ROOT.fullmatch(root.name) and root.parent == attempt.parent.resolve()
    return root if is_of_prefect and root.is_dir() else None


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
    removed = await janitor.sweep(await asyncio.to_thread(_list_active, lake))
    removed += await janitor.remove_snapshots(await _list_ended_snapshots(lake))
    folders = await asyncio.to_thread(list_abandoned)
    await asyncio.to_thread(remove, folders)
    return [*removed, *map(_describe_folder, folders)]


async def _list_ended_snapshots(lake: Lake) -> list[str]:
    """Return the snapshot images of ended attempts of this lake, which no run will resume."""
    journal = existing_journal(lake)
    if journal is None:
        return []
    ended: list[str] = []
    for attempt_id, images in (await janitor.snapshots(journal.id)).items():
        if await asyncio.to_thread(journal.outcome, attempt_id) is not None:
            ended += images
    return ended


async def leftovers(lake: Lake) -> list[str]:
    """Return a line for each container, folder or image that `sweep` would remove."""
    unused = await janitor.find(await asyncio.to_thread(_list_active, lake))
    images = await _list_ended_snapshots(lake)
    folders = await asyncio.to_thread(list_abandoned)
    return [
        *map(str, unused),
        *(f"image {image}: of an attempt that has ended" for image in images),
        *map(_describe_folder, folders),
    ]


def _describe_folder(folder: Path) -> str:
    return f"folder {folder}: of a killed Prefect worker"


def _list_active(lake: Lake) -> set[str]:
    """Return the ids of active attempts."""
    journal = existing_journal(lake)
    return journal.active() if journal else set()
