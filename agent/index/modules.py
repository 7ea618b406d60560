"""Find the file that an import refers to, as seen from the importing file.

Nothing is installed or executed. The folders determine the result, by the usual layouts of each
language, and so do the names in `go.mod`, `Cargo.toml` and `package.json`.

A module is named by the path of its file, and a package without one by its folder's path with a `/`
at the end.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Literal

from agent.index.languages import name_of_language

Family = Literal["python", "script", "go", "rust", "java"]

_USUAL_ROOTS = ("", "src", "lib", "python")
_FAMILIES: Mapping[str | None, Family] = {
    "python": "python",
    "javascript": "script",
    "typescript": "script",
    "tsx": "script",
    "go": "go",
    "rust": "rust",
    "java": "java",
}
_MANIFESTS = {
    "go.mod": re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE),
    "Cargo.toml": re.compile(r"^name\s*=\s*[\"']([^\"'\n]+)", re.MULTILINE),
    "package.json": re.compile(r"\"name\"\s*:\s*\"([^\"\n]+)\""),
}
_MANIFEST_CHARS = 2**16
_SCRIPTS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".mts", ".cts", ".vue")
_STANDS_FOR_FOLDER = {"__init__", "index", "mod", "lib", "main"}


def family_of(path: str) -> Family:
    """Return which languages a file shares its imports with."""
    return _FAMILIES[name_of_language(path)]


class Modules:
    """The modules of a repository."""

    def __init__(self, paths: Iterable[str], texts: Mapping[str, str]) -> None:
        """`paths` are the files of known languages, `texts` all files by their paths."""
        self._paths = sorted(paths)
        self._files = set(self._paths)
        self._python = {path for path in self._files if path.endswith((".py", ".pyi"))}
        self._folders = {folder for path in self._files for folder in _outwards(_folder(path))}
        self._packages = _read_names(texts)
        self._roots: dict[str, str] = {}
        self._imported: dict[tuple[str, str, Family], str | None] = {}

    def name(self, path: str) -> str:
        """Return the name by which a file is most likely imported, with dots."""
        family = family_of(path)
        if family == "python":
            return self._python_name(path)
        parts = PurePosixPath(path).with_suffix("").parts
        if family == "java":
            return ".".join(_below_source(parts[:-1], ("java", "src")))
        if family == "go":
            return parts[-2] if len(parts) > 1 else "main"
        short = parts[:-1] if parts[-1] in _STANDS_FOR_FOLDER and len(parts) > 1 else parts
        return ".".join(_below_source(short, ("src",)) or parts)

    def peers(self, path: str) -> list[str]:
        """Return the files whose top-level names a file sees without importing them, with it."""
        return self._peers.get((family_of(path), self._package(path)), [path])

    @cached_property
    def _peers(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for path in self._paths:
            if family_of(path) in ("go", "java"):
                found.setdefault((family_of(path), self._package(path)), []).append(path)
        return found

    def _package(self, path: str) -> str:
        return self.name(path) if family_of(path) == "java" else _folder(path)

    def find_imported(self, module: str, importer: str) -> str | None:
        """Return the module that a file imports under a name, or None if it is not here."""
        key = (module, _folder(importer), family_of(importer))
        if key[2] == "rust":
            return self._of_rust(module, importer)
        if key not in self._imported:
            find = {"python": self._of_python, "script": self._of_script, "go": self._of_go}
            self._imported[key] = find.get(key[2], self._of_java)(module, key[1])
        return self._imported[key]

    def submodule(self, module: str, name: str) -> str | None:
        """Return a module inside a package, or None if there is none."""
        if module.endswith(".rs"):
            return self._inside_rust(module, name)
        if module.endswith("/"):
            return self._in(module.rstrip("/"), name)
        folder, _, file = module.rpartition("/")
        return self._in(folder, name) if file in ("__init__.py", "__init__.pyi") else None

    # JavaScript and TypeScript, Go, Rust, Java

    def _of_script(self, module: str, folder: str) -> str | None:
        if module.startswith("."):
            return self._script(_normal(f"{folder}/{module}"))
        if module.startswith(("@/", "~/")):
            near = [_normal(f"{outer}/src/{module[2:]}") for outer in _outwards(folder)]
            return next(filter(None, map(self._script, near)), None)
        name, rest = self._split_package(module)
        if name is None:
            return None
        stems = [f"{name}/{rest}", f"{name}/src/{rest}"]
        return next(filter(None, (self._script(_normal(stem)) for stem in stems)), None)

    def _script(self, stem: str) -> str | None:
        bare = stem.removesuffix(".js").removesuffix(".mjs").removesuffix(".jsx")
        inside = f"{stem}/index" if stem != "." else "index"
        tried = [stem, *(f"{each}{end}" for each in (stem, bare, inside) for end in _SCRIPTS)]
        return next((path for path in tried if path in self._files), None)

    def _of_go(self, module: str, folder: str) -> str | None:
        name, rest = self._split_package(module)
        found = None if name is None else self._peers.get(("go", _normal(f"{name}/{rest}")))
        return found[0] if found else None

    def _of_java(self, module: str, folder: str) -> str | None:
        return next(iter(self._peers.get(("java", module), ())), None)

    def _split_package(self, module: str) -> tuple[str | None, str]:
        """Return the folder of the longest name of a package that begins a name, and the rest."""
        parts = module.split("/")
        for size in range(len(parts), 0, -1):
            if folder := self._packages.get("/".join(parts[:size])):
                return folder, "/".join(parts[size:])
        return None, ""

    def _of_rust(self, module: str, importer: str) -> str | None:
        """Return the module at the start of a path; the names after it are its members."""
        if module == "self":
            return importer
        if module == "super":
            folder = _folder(importer)
            name = PurePosixPath(importer).stem
            outer = folder if name not in _STANDS_FOR_FOLDER else _folder(folder)
            stems = [f"{outer}/mod.rs", f"{outer}/lib.rs", f"{outer}/main.rs", f"{outer}.rs"]
            return next((each for each in map(_normal, stems) if each in self._files), importer)
        if module == "crate":
            return next(filter(None, map(self._crate, _outwards(_folder(importer)))), None)
        crate = self._packages.get(module) or self._packages.get(module.replace("_", "-"))
        named = self._crate(_normal(f"{crate}/src")) if crate else None
        return named or self._inside_rust(importer, module)

    def _crate(self, folder: str) -> str | None:
        tried = (_normal(f"{folder}/{name}.rs") for name in ("lib", "main"))
        return next((path for path in tried if path in self._files), None)

    def _inside_rust(self, module: str, name: str) -> str | None:
        path = PurePosixPath(module)
        inside = _folder(module) if path.stem in _STANDS_FOR_FOLDER else str(path.with_suffix(""))
        tried = (_normal(f"{inside}/{name}{end}") for end in (".rs", "/mod.rs"))
        return next((path for path in tried if path in self._files), None)

    # Python

    def _python_name(self, path: str) -> str:
        parts = PurePosixPath(path).with_suffix("").parts
        start = len(PurePosixPath(self._root(_folder(path))).parts)
        if start == len(parts) - 1:  # in no package: as seen from the root
            start = 1 if len(parts) > 1 and parts[0] in _USUAL_ROOTS else 0
        names = parts[start:]
        return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)

    def _of_python(self, module: str, folder: str) -> str | None:
        name = module.lstrip(".")
        level = len(module) - len(name)
        parts = name.split(".") if name else []
        if level:
            for _ in range(level - 1):
                folder = _folder(folder)
            found = self._folder_package(folder)
        else:
            found, parts = self._top(parts[0], folder), parts[1:]
        for part in parts:
            if found is None:
                return None
            found = self.submodule(found, part)
        return found

    def _in(self, folder: str, name: str) -> str | None:
        stem = name if folder in (".", "") else f"{folder}/{name}"
        for path in (f"{stem}/__init__.py", f"{stem}.py", f"{stem}/__init__.pyi", f"{stem}.pyi"):
            if path in self._python:
                return path
        return f"{stem}/" if stem in self._folders else None

    def _folder_package(self, folder: str) -> str | None:
        inside = "" if folder == "." else f"{folder}/"
        for path in (f"{inside}__init__.py", f"{inside}__init__.pyi"):
            if path in self._python:
                return path
        return inside or "./" if folder in self._folders else None

    def _top(self, name: str, folder: str) -> str | None:
        near = [*_outwards(self._root(folder)), *_USUAL_ROOTS]
        roots = near if name in sys.stdlib_module_names else [*near, *self._package_roots]
        found = [path for root in roots if (path := self._in(root, name)) is not None]
        # A folder without an `__init__.py` counts if no root has a real module.
        return next((path for path in found if not path.endswith("/")), next(iter(found), None))

    def _root(self, folder: str) -> str:
        """Return the folder on Python's path from which files of a folder are imported."""
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


def _read_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the folders of packages by the names that their manifests state."""
    found: dict[str, str] = {}
    for path in sorted(texts):
        folder, _, file = path.rpartition("/")
        if file in _MANIFESTS and (name := _MANIFESTS[file].search(texts[path][:_MANIFEST_CHARS])):
            found.setdefault(name[1], folder or ".")
    return found


def _below_source(parts: tuple[str, ...], roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return what follows the last folder with a usual name of one of sources."""
    for root in roots:
        if root in parts:
            return parts[len(parts) - parts[::-1].index(root) :]
    return parts


def _folder(path: str) -> str:
    """Return the folder of a path, `.` at the root. A string, because the speed matters."""
    return path.rpartition("/")[0] or "."


def _normal(path: str) -> str:
    """Return a path without `.` and `..`."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


def _outwards(folder: str) -> list[str]:
    """Return a folder and those around it, the root `.` last."""
    parts = [] if folder == "." else folder.split("/")
    return [*reversed(list(accumulate(parts, "{}/{}".format))), "."]
