"""Files in folders of other systems. Nothing outside of such a folder is read."""

import os
from pathlib import Path

from flows.display.errors import UsageError


def find_files(folder: Path, ending: str) -> list[Path]:
    """Return the files at any depth with a name or an ending of it, in the order of their paths.

    Folders that are links are passed over.

    Raises:
        UsageError: a file is a link that leads out of the folder.
    """
    found = (
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name == ending or (ending.startswith(".") and name.endswith(ending))
    )
    return [refuse_link(path, folder) for path in sorted(found) if path.is_file()]


def refuse_link(path: Path, folder: Path) -> Path:
    """Return a path in a folder.

    Raises:
        UsageError: it leads out of the folder.
    """
    if not is_inside(path, folder):
        raise UsageError(f"{path} leads out of {folder}: put the file itself in its place")
    return path


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path does not lead out of a folder, by a link or by `..`."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return real == root or real.startswith(f"{root.rstrip(os.sep)}{os.sep}")
