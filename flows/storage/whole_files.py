"""Files of a lake that appear whole or not at all, on a disk or an object store."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent.errors import InfrastructureError
from agent.stores import create_object, put_object, reason, refusals, replace_file

if TYPE_CHECKING:
    from upath import UPath

_AT_ONCE = 16
"""Files that are removed at a time. An object store takes as long for each as for all of them."""


def put(path: "Path | UPath", content: bytes) -> None:
    """Write a file and its folder. Raise one of `refusals()`."""
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    else:
        put_object(path, content)


def delete(path: "Path | UPath") -> None:
    """Remove a file. Raise one of `refusals()`."""
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.fs.rm_file(path.path)  # `unlink` would treat the name as a pattern


@contextmanager
def writing(path: "Path | UPath") -> Iterator[None]:
    """Convert errors of writing a file during the block."""
    try:
        yield
    except refusals() as error:
        raise InfrastructureError(
            f"{path} cannot be written: {reason(error)}; free some space or repair the disk or the "
            "store, and run again"
        ) from error


def read_all(paths: "Sequence[Path | UPath]") -> list[bytes]:
    """Read files, many at a time on an object store. Raise one of `refusals()`."""
    objects = [path for path in paths if not isinstance(path, Path)]
    if not objects:
        return [path.read_bytes() for path in paths]
    names, options = [path.path for path in objects], {"on_error": "raise", "max_concurrency": 1}
    contents: list[bytes] = objects[0].fs.cat_ranges(names, None, None, **options)
    return contents


def remove_all(paths: "Iterable[Path | UPath]") -> None:
    """Remove files if they exist, many at a time.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(remove, paths):
            pass


def write_whole(path: "Path | UPath", content: bytes) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        InfrastructureError: a disk or object-store operation failed; no partial file remains.
    """
    with writing(path):
        put(path, content)


def create_whole(path: "Path | UPath", content: bytes) -> None:
    """Create a file in its own folder, whole, unless it exists.

    Of several concurrent writers, exactly one succeeds.

    Raises:
        InfrastructureError: a disk or object-store operation failed; nothing remains.
    """
    with writing(path):
        if not isinstance(path, Path):
            create_object(path, content)
            return
        if path.exists():
            return
        folder = path.parent
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Not every disk supports links, but on all disks a folder can only replace an empty folder.
        with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
            new = Path(temporary) / folder.name
            new.mkdir()
            with (new / path.name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                new.rename(folder)
            except OSError:
                if not path.exists():
                    raise


def remove(path: "Path | UPath") -> None:
    """Remove a file if it exists.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        delete(path)
    except refusals() as error:
        raise InfrastructureError(f"{path} cannot be removed: {reason(error)}") from error
