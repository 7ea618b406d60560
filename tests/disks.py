"""Disks that a test can fill up or break."""

import fcntl
import os
import struct
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


_SHUT_DOWN = 0x8004587D
"""The request `EXT4_IOC_SHUTDOWN` of the kernel."""
_WITHOUT_JOURNAL = struct.pack("I", 2)


class FragileDisk:
    """An ext4 file system in a file. Broken, it answers every request with EIO until repaired."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder, self._image = folder, image

    def mount(self) -> None:
        """Mount the disk, or skip the test if this user cannot."""
        mount = ["mount", "-o", "loop", str(self._image), str(self.folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")

    def break_(self) -> None:
        """Lose what is not on the disk, and refuse every further request."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUT_DOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(folder)

    def repair(self) -> None:
        """Mount the disk again with what is on it. Open files stay broken."""
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        """Unmount the disk, lazily: programs may have files open."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@contextmanager
def mounted_ext4(folder: Path, size_mb: int) -> Iterator[FragileDisk]:
    """Mount a disk that can break, or skip the test if this user cannot."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk takes root")
    folder.mkdir()
    image = folder.with_suffix(".ext4")
    with image.open("wb") as file:
        file.truncate(size_mb * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    disk = FragileDisk(folder, image)
    disk.mount()
    try:
        yield disk
    finally:
        disk.unmount()
