"""A small disk that a test can fill up."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory that a test can fill up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Release the space again."""
        self._ballast.unlink()


@contextmanager
def mounted(folder: Path, size_mb: int = 16) -> Iterator[SmallDisk]:
    """Mount a disk of this size in MiB, or skip the test if this user cannot."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily, since the test itself may have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
