"""Archives that tests unpack, and packages that they download."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest


def unpack(archive: Path, folder: Path, *prefixes: str) -> None:
    """Unpack an archive, or only its members whose names begin with one of these prefixes.

    The files belong to this user.
    """
    with tarfile.open(archive) as packed:
        members = [each for each in packed if each.name.startswith(prefixes or ("",))]
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, members, filter="data")
            return
        for each in members:  # Python before 3.11.4 has no filters
            each.uid, each.gid, each.uname, each.gname = os.getuid(), os.getgid(), "", ""
        packed.extractall(folder, members)


def source_distribution(python: str | Path, release: str, folder: Path) -> Path:
    """Download a release, such as `six==1.16.0`, with that Python's pip. Return its unpacked files.

    The test is skipped if there is no package index.
    """
    name = release.partition("=")[0]
    pip(python, "download", "--no-binary", name, "--no-deps", "-d", folder, release)
    [archive] = folder.glob("*.tar.gz")
    unpack(archive, folder / "source")
    return next((folder / "source").iterdir())


def pip(python: str | Path, *arguments: str | Path) -> None:
    """Run pip, or skip the test if there is no package index."""
    done = subprocess.run([python, "-m", "pip", "-q", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the package index does not deliver: {done.stderr.strip()[-300:]}")
