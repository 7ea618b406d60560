"""Files of the lake, on a disk or an object store."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent.stores import create_object, put_object, replace_file

if TYPE_CHECKING:
    from upath import UPath


def find_existing(folder: "Path | UPath") -> "Path | UPath":
    """Return the folder, or the nearest one above it that exists."""
    if not isinstance(folder, Path):
        return folder
    return next(one for one in (folder, *folder.parents) if one.exists() or one.is_symlink())


def write_file(path: "Path | UPath", content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if not isinstance(path, Path):
        put_object(path, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content, durable=False)


def create_file(path: "Path | UPath", content: bytes) -> bool:
    """Create a file in its own folder unless it exists. Return True if it was written.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if not isinstance(path, Path):
        return create_object(path, content)
    if path.exists():
        return False
    folder = path.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Not every disk supports links, but on every disk a folder can only replace an empty folder.
    with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        with (made / path.name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            made.rename(folder)
        except OSError:
            if path.exists():
                return False
            raise
    return True


def remove_file(path: "Path | UPath") -> None:
    """Remove a file; on a disk, it need not exist.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.fs.rm_file(path.path)  # `unlink` would treat the name as a pattern
