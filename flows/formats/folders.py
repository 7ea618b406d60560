"""Files in folders of other systems. Nothing outside of such a folder is read."""

import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from flows.display.errors import UsageError
from flows.formats.attempts import MOST_BYTES

_MOST_EXPANSION = 200
"""Upper limit of the size of a file divided by the size of its archive. Logs reach about 30."""


_MOST_LEVELS = 100
"""Upper limit of folders inside each other."""


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder with the sorted names of its folders, which can be removed, and files.

    No link is followed.

    Raises:
        UsageError: a folder cannot be read, or they are nested too deeply.
    """
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        path = Path(parent)
        if len(path.parts) - len(folder.parts) > _MOST_LEVELS:
            raise UsageError(f"{folder} has more than {_MOST_LEVELS} folders inside each other")
        folders.sort()
        yield path, folders, sorted(names)


def _refuse(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be read: {error.strerror}")


def find_files(folder: Path, ending: str) -> list[Path]:
    """Return the files at any depth with a name or an ending of it, in the order of their paths.

    Folders that are links are passed over.

    Raises:
        UsageError: a file is a link that leads out of the folder, or a folder cannot be used.
    """
    found = (
        parent / name
        for parent, _, names in walk(folder)
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


def refuse_bomb(path: Path) -> None:
    """Refuse an archive whose content is very large and consists of nearly nothing.

    Raises:
        UsageError: it is one.
    """
    if not is_zipfile(path):
        return
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max(MOST_BYTES, _MOST_EXPANSION * path.stat().st_size):
        raise UsageError(f"{path} would expand to {size / 2**30:.0f} GiB, which no log does")
