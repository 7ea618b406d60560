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
    """Return the family of languages that can import a file."""
    return _FAMILIES[name_of_language(path)]


class Modules:
    """The modules of a repository."""

    def __init__(self, paths: Iterable[str], texts: Mapping[str, str]) -> None:
        """`paths` are the files of known languages, `texts` all files by their paths."""
        self._paths = sorted(paths)
        self._files = set(self._paths)
        self._python = {path for path in self._files if path.endswith((".py", ".pyi"))}
        self._folders = {folder for path in self._files for folder in _outwards(_folder(path))}
        self._packages: dict[str, str] = {}
        """Folders of packages by the names that their manifests state."""
        for path in sorted(texts):
            folder, _, file = path.rpartition("/")
            manifest = _MANIFESTS.get(file)
            if manifest and (name := manifest.search(texts[path][:_MANIFEST_CHARS])):
                self._packages.setdefault(name[1], folder or ".")
        self._roots: dict[str, str] = {}
        self._imported: dict[tuple[str, str, Family], str | None] = {}

    def name(self, path: str) -> str:
        """Return the most likely name of a file in imports, with dots."""
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
        peers: dict[tuple[str, str], list[str]] = {}
        for path in self._paths:
            if family_of(path) in ("go", "java"):
                peers.setdefault((family_of(path), self._package(path)), []).append(path)
        return peers

    def _package(self, path: str) -> str:
        return self.name(path) if family_of(path) == "java" else _folder(path)

    def find_imported(self, module: str, importer: str) -> str | None:
        """Return the module that a file imports under a name, None if it is not in here."""
        folder, family = _folder(importer), family_of(importer)
        if family == "rust":
            return self._find_rust(module, importer)
        key = (module, folder, family)
        if key not in self._imported:
            if family == "python":
                path = self._find_python(module, folder)
            elif family == "script":
                path = self._find_script(module, folder)
            elif family == "java":
                path = next(iter(self._peers.get(("java", module), ())), None)
            else:
                name, rest = self._split_package(module)
                package = None if name is None else ("go", _normal(f"{name}/{rest}"))
                path = self._peers[package][0] if package in self._peers else None
            self._imported[key] = path
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

    def _find_script(self, module: str, folder: str) -> str | None:
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
        stems = (stem, bare, inside)
        return self._first([stem, *(f"{start}{end}" for start in stems for end in _SCRIPTS)])

    def _split_package(self, module: str) -> tuple[str | None, str]:
        """Return the folder of the longest package name at the start of a name, and the rest."""
        parts = module.split("/")
        for size in range(len(parts), 0, -1):
            if folder := self._packages.get("/".join(parts[:size])):
                return folder, "/".join(parts[size:])
        return None, ""

    def _find_rust(self, module: str, importer: str) -> str | None:
        """Return the module at the start of a path; the names after it are its members."""
        if module == "self":
            return importer
        if module == "super":
            folder = _folder(importer)
            name = PurePosixPath(importer).stem
            outer = folder if name not in _STANDS_FOR_FOLDER else _folder(folder)
            paths = [f"{outer}/mod.rs", f"{outer}/lib.rs", f"{outer}/main.rs", f"{outer}.rs"]
            return self._first(paths) or importer
        if module == "crate":
            return next(filter(None, map(self._crate, _outwards(_folder(importer)))), None)
        crate = self._packages.get(module) or self._packages.get(module.replace("_", "-"))
        named = self._crate(_normal(f"{crate}/src")) if crate else None
        return named or self._inside_rust(importer, module)

    def _crate(self, folder: str) -> str | None:
        return self._first([f"{folder}/lib.rs", f"{folder}/main.rs"])

    def _inside_rust(self, module: str, name: str) -> str | None:
        path = PurePosixPath(module)
        inside = _folder(module) if path.stem in _STANDS_FOR_FOLDER else str(path.with_suffix(""))
        return self._first([f"{inside}/{name}.rs", f"{inside}/{name}/mod.rs"])

    def _first(self, paths: Iterable[str]) -> str | None:
        return next((path for path in map(_normal, paths) if path in self._files), None)

    # Python

    def _python_name(self, path: str) -> str:
        parts = PurePosixPath(path).with_suffix("").parts
        start = len(PurePosixPath(self._root(_folder(path))).parts)
        if start == len(parts) - 1:  # in no package: as seen from the root
            start = 1 if len(parts) > 1 and parts[0] in _USUAL_ROOTS else 0
        names = parts[start:]
        return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)

    def _find_python(self, module: str, folder: str) -> str | None:
        name = module.lstrip(".")
        level = len(module) - len(name)
        parts = name.split(".") if name else []
        if level:
            for _ in range(level - 1):
                folder = _folder(folder)
            inside = "" if folder == "." else f"{folder}/"
            packages = (f"{inside}__init__.py", f"{inside}__init__.pyi")
            package = inside or "./" if folder in self._folders else None
            path = next((path for path in packages if path in self._python), package)
        else:
            path, parts = self._find_top(parts[0], folder), parts[1:]
        for part in parts:
            if path is None:
                return None
            path = self.submodule(path, part)
        return path

    def _in(self, folder: str, name: str) -> str | None:
        stem = name if folder in (".", "") else f"{folder}/{name}"
        for path in (f"{stem}/__init__.py", f"{stem}.py", f"{stem}/__init__.pyi", f"{stem}.pyi"):
            if path in self._python:
                return path
        return f"{stem}/" if stem in self._folders else None

    def _find_top(self, name: str, folder: str) -> str | None:
        near = [*_outwards(self._root(folder)), *_USUAL_ROOTS]
        roots = near if name in sys.stdlib_module_names else [*near, *self._package_roots]
        paths = [path for root in roots if (path := self._in(root, name)) is not None]
        # A folder without an `__init__.py` counts if no root has a real module.
        return next((path for path in paths if not path.endswith("/")), next(iter(paths), None))

    def _root(self, folder: str) -> str:
        """Return the folder on Python's path for imports of the files of a folder."""
        if folder not in self._roots:
            self._roots[folder] = next(
                outer for outer in _outwards(folder) if outer == "." or not self._is_package(outer)
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


def _below_source(parts: tuple[str, ...], roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts after the last folder with a usual name for sources."""
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
