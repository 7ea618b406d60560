"""Temporary files of a test run in memory, where workspaces and journals take a tenth less time."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from multiprocessing import util
from pathlib import Path

import psutil
import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 * 2**30
"""Room for files, and as much again for programs. All tests write 6 GB."""

_PREFIX = "durabench."

_LAST = -1000
"""Priority at the end of a process. multiprocessing removes its own temporary folder at -100."""


@dataclass
class Files:
    """The temporary files of a test run. They are removed at its end, unless they are wanted."""

    folder: Path
    are_wanted: bool = True

    def __post_init__(self) -> None:
        util.Finalize(None, self._end, exitpriority=_LAST)

    def _end(self) -> None:
        if not self.are_wanted:
            shutil.rmtree(self.folder, ignore_errors=True)


def begin(config: pytest.Config) -> Files | None:
    """Put temporary files of this process and its children in a new folder in memory.

    Return None, and change nothing, if memory has no room, or TMPDIR or `--basetemp` is given.
    """
    if "TMPDIR" in os.environ or config.option.basetemp or not MEMORY.is_dir():
        return None
    _remove_earlier()
    if shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        return None
    if psutil.virtual_memory().available < 2 * ROOM_BYTES:
        return None
    folder = MEMORY / f"{_PREFIX}{os.getpid()}"
    folder.mkdir()  # the user of a PostgreSQL server enters it, too
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # what Python has found before
    config.option.basetemp = str(folder / "p")  # paths of sockets must be short
    return Files(folder)


def _remove_earlier() -> None:
    """Remove what runs left behind that failed or were killed."""
    for folder in MEMORY.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX)
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
