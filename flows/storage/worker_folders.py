"""Temporary folders of killed Prefect workers. A worker that ends by itself removes its own."""

import json
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_ATTEMPTS = "prefect-workspace-attempt-*"
"""The folder of a flow run with its settings; the command line of its process names it."""

_ROOT = re.compile(r"tmp[a-z0-9_]{8}prefect")
"""Name of the working folder of a flow run, which its settings name."""

_YOUNG_S = 60.0
"""The process of a younger folder may not have started yet."""

_PROCESSES = Path("/proc")


def abandoned() -> list[Path]:
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
