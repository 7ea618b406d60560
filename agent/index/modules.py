"""Find the file that a module's name refers to, as seen from the importing file.

Nothing is installed or executed. The folders determine the result, by the usual layouts (packages
at the root or in `src`, namespace packages, scripts and tests beside their helpers).
"""

import sys
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from pathlib import PurePosixPath

_USUAL_ROOTS = ("", "src", "lib", "python")


class Modules:
    """The modules of a repository.

    A module is named by the path of its file, a package by its `__init__.py`, and a package without
    one by its folder's path with a `/` at the end.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._files = {path for path in paths if path.endswith((".py", ".pyi"))}
        self._folders = {folder for path in self._files for folder in _outwards(_folder(path))}
        self._roots: dict[str, str] = {}
        self._imported: dict[tuple[str, int, str], str | None] = {}
        self._found: dict[tuple[str, str], str | None] = {}

    def name(self, path: str) -> str:
        """Return the dotted name by which a file is most likely imported."""
        parts = PurePosixPath(path).with_suffix("").parts
        start = len(PurePosixPath(self._root(_folder(path))).parts)
        if start == len(parts) - 1:  # in no package: as seen from the root
            start = 1 if len(parts) > 1 and parts[0] in _USUAL_ROOTS else 0
        names = parts[start:]
        return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)

    def imported(self, module: str, level: int, importer: str) -> str | None:
        """Return the module that `import module` refers to in a file, or None.

        The result is None if the module is not in the repository. `level` counts the dots of a
        relative import.
        """
        key = (module, level, _folder(importer))
        if key not in self._imported:
            self._imported[key] = self._import(*key)
        return self._imported[key]

    def _import(self, module: str, level: int, folder: str) -> str | None:
        parts = module.split(".") if module else []
        if level:
            for _ in range(level - 1):
                folder = _folder(folder)
            found = self._package(folder)
        else:
            found, parts = self._top(parts[0], folder), parts[1:]
        for part in parts:
            if found is None:
                return None
            found = self.submodule(found, part)
        return found

    def submodule(self, module: str, name: str) -> str | None:
        """Return a module inside a package, or None if there is none."""
        if module.endswith("/"):
            return self._in(module.rstrip("/"), name)
        folder, _, file = module.rpartition("/")
        return self._in(folder, name) if file in ("__init__.py", "__init__.pyi") else None

    def _in(self, folder: str, name: str) -> str | None:
        stem = name if folder in (".", "") else f"{folder}/{name}"
        for path in (f"{stem}/__init__.py", f"{stem}.py", f"{stem}/__init__.pyi", f"{stem}.pyi"):
            if path in self._files:
                return path
        return f"{stem}/" if stem in self._folders else None

    def _package(self, folder: str) -> str | None:
        inside = "" if folder == "." else f"{folder}/"
        for path in (f"{inside}__init__.py", f"{inside}__init__.pyi"):
            if path in self._files:
                return path
        return inside or "./" if folder in self._folders else None

    def _top(self, name: str, folder: str) -> str | None:
        key = (name, folder)
        if key not in self._found:
            self._found[key] = self._search(name, folder)
        return self._found[key]

    def _search(self, name: str, folder: str) -> str | None:
        near = [*_outwards(self._root(folder)), *_USUAL_ROOTS]
        roots = near if name in sys.stdlib_module_names else [*near, *self._package_roots]
        found = [path for root in roots if (path := self._in(root, name)) is not None]
        # A folder without an `__init__.py` counts if no root has a real module.
        return next((path for path in found if not path.endswith("/")), next(iter(found), None))

    def _root(self, folder: str) -> str:
        """Return the folder that has to be on Python's path for files of a folder to be
        imported.
        """
        if folder not in self._roots:
            self._roots[folder] = next(
                each for each in _outwards(folder) if each == "." or not self._is_package(each)
            )
        return self._roots[folder]

    def _is_package(self, folder: str | PurePosixPath) -> bool:
        return f"{folder}/__init__.py" in self._files or f"{folder}/__init__.pyi" in self._files

    @cached_property
    def _package_roots(self) -> list[str]:
        """The folders that contain packages, shallowest first."""
        packages = (PurePosixPath(path).parent for path in self._files if "/__init__.py" in path)
        roots = {folder.parent for folder in packages if not self._is_package(folder.parent)}
        return [str(root) for root in sorted(roots, key=lambda root: (len(root.parts), root))]


def _folder(path: str) -> str:
    """Return the folder of a path, `.` at the root. A string, because the speed matters."""
    return path.rpartition("/")[0] or "."


def _outwards(folder: str) -> list[str]:
    """Return a folder and those around it, the root `.` last."""
    parts = [] if folder == "." else folder.split("/")
    return [*reversed(list(accumulate(parts, "{}/{}".format))), "."]
