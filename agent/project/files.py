"""The files that detection reads: a set of paths, and the text of single files."""

import os
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

MOST_TEXT = 1_000_000
"""Bytes of a file that detection reads."""

SKIPPED = frozenset({".git", ".hg", ".tox", ".venv", "node_modules", "target", "venv", "vendor"})
"""Folders of other projects and of build results."""


class Files(Protocol):
    """The files of a repository. Paths are relative to its root, with `/` between folders."""

    @property
    def paths(self) -> Set[str]: ...

    def text(self, path: str) -> str:
        """Return the text of a file, or '' if there is no such file."""
        ...


@dataclass(frozen=True)
class Inner:
    """The files of a folder of other files."""

    files: Files
    folder: str

    @cached_property
    def paths(self) -> Set[str]:
        head = f"{self.folder}/"
        return {p.removeprefix(head) for p in self.files.paths if p.startswith(head)}

    def text(self, path: str) -> str:
        return self.files.text(f"{self.folder}/{path}")


class Folder:
    """The files of a folder, without dependencies and build results."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def paths(self) -> Set[str]:
        paths: set[str] = set()
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name not in SKIPPED]
            inner = Path(folder).relative_to(self._root)
            paths.update((inner / name).as_posix() for name in names)
        return paths

    def text(self, path: str) -> str:
        try:
            with (self._root / path).open("rb") as file:
                return file.read(MOST_TEXT).decode("utf-8", "replace")
        except OSError:
            return ""
