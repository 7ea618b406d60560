"""Definitions, callers and callees of a repository's code, from its syntax trees."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as concatenated
from pathlib import PurePosixPath
from typing import NamedTuple

from agent.index.files import ChainReference, SourceFiles
from agent.index.languages import ANYTHING, CALL, LITERAL, Chain
from agent.index.modules import Modules, family_of
from agent.index.resolution import FOREIGN, Entity, Found, Resolver
from agent.index.syntax import DefinitionSyntax, Import, Kind
from agent.testfiles import TestFiles


class Definition(NamedTuple):
    """A module, class, function, method, or variable of a module or class."""

    path: str
    module: str
    """Dotted name by which it is most likely imported."""
    # The fields of `DefinitionSyntax`
    qualified: str
    kind: Kind
    start: int
    line: int
    end: int
    signature: str
    doc: str

    @property
    def name(self) -> str:
        return self.full_name.rpartition(".")[2]

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.qualified}" if self.qualified else self.module


@dataclass(frozen=True, slots=True)
class Use:
    """A location at which a definition is called or otherwise used.

    Other uses are passing it on, decorating with it, deriving from it, or reading it as a property.
    """

    path: str
    line: int
    text: str
    """The evaluated expression, such as `self.reader.load`; `…` replaces a subexpression."""
    inside: Definition
    """The innermost definition around the use, at least the module."""
    targets: tuple[Definition, ...]
    """The used definition; for a possible use, every definition that it could be."""
    is_certain: bool
    """True if imports, scopes and types determine the target.

    Otherwise only the name agrees, or a subclass overrides the determined target.
    """
    is_call: bool


Key = tuple[str, str]
"""The path of a definition and its qualified name, which overloads share."""

_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "constructor")
_MOST = 200
"""Definitions of one name that a question is about."""
_USABLE = ("class", "function", "method")
_PATH = re.compile(
    r"(?P<file>(?P<stem>.+)\.(?:pyi?|[cm]?[jt]sx?|go|rs|java))(?:(?:::?|[.#])(?P<rest>.+))?",
    re.DOTALL,
)


class SymbolIndex:
    """The symbols of one state of a repository.

    A file is parsed when a question first needs it, and not again if it has not changed since this
    process made another index. All results are in a fixed order: code before tests, then by path
    and line. Only one thread may ask at a time.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Index the files of known languages among `texts`, files by their paths."""
        self._files = SourceFiles(texts)
        self._modules = Modules(self._files.texts, texts)
        self._names = {path: self._modules.name(path) for path in self._files.texts}
        self._resolver = Resolver(self._files, self._modules)
        self._definitions: dict[str, list[Definition]] = {}
        self._by_name: dict[str, list[Definition]] = {}
        self._imports: dict[str, list[str]] = {}
        self._references_of: dict[str, list[ChainReference]] = {}
        """Those of the last file that was searched for callees."""
        self._origins: dict[tuple[str, Import], list[str]] = {}

    @property
    def test_files(self) -> TestFiles:
        """The answer to which files of the repository are tests."""
        return self._files.test_files

    @property
    def paths(self) -> list[str]:
        """The files of known languages."""
        return list(self._files.texts)

    def list_definitions(self, path: str) -> list[Definition]:
        """Return the definitions of a file by line, the module first."""
        if path not in self._files.texts:
            return []
        if path not in self._definitions:
            found = self._files.syntax(path).definitions
            self._definitions[path] = [self._define(path, each) for each in found]
        return list(self._definitions[path])

    def definitions(self, symbol: str) -> list[Definition]:
        """Return the definitions that a symbol names.

        A symbol is `load`, `Reader.load`, `package.module.Reader.load`,
        `path/to/module.py::Reader.load`, or an inherited or re-exported name such as
        `package.Reader`.
        """
        parts = _parts(symbol, self._files.texts)
        if not parts:
            return []
        if named := [found for found in self._find_definitions(parts[-1]) if _ends(found, parts)]:
            return named
        for split in range(len(parts) - 1, 0, -1):
            owners = [
                f for f in self._find_definitions(parts[split - 1]) if _ends(f, parts[:split])
            ]
            found = [self._members(owner, parts[split:]) for owner in owners]
            if any(found):
                return list(dict.fromkeys(concatenated.from_iterable(found)))
        return []

    def callers(self, symbol: str) -> list[Use]:
        """Return the uses of the classes, functions and methods that a symbol names.

        Certain uses come before possible ones.
        """
        named = self.definitions(symbol)
        targets = [found for found in named if found.kind in _USABLE][:_MOST]
        uses = (
            self._use(path, reference, hits, is_certain)
            for path, reference in self._references(self._names_of(targets))
            for hits, is_certain in [self._hits(path, reference, targets)]
            if hits
        )
        tests = self._files.tests

        def order(use: Use) -> tuple[bool, bool, str, int, str]:
            return not use.is_certain, use.path in tests, use.path, use.line, use.text

        return sorted(dict.fromkeys(uses), key=order)

    def callees(self, symbol: str) -> list[Use]:
        """Return the repository's definitions that a symbol uses, in the order of the code.

        Uses are calls, properties that are read and functions that are passed on.
        """
        uses = (
            self._use(definition.path, reference, targets, is_certain)
            for definition in self._places(symbol)
            for reference in self._inside(definition)
            for targets, is_certain in [self._targets(definition.path, reference)]
            if targets
        )
        return sorted(dict.fromkeys(uses), key=lambda use: (use.path, use.line, use.text))

    def _places(self, symbol: str) -> list[Definition]:
        """Return the definitions of a symbol, those of one name and place once."""
        found = self.definitions(symbol)
        places = {(each.path, each.qualified, each.start, each.end): each for each in found}
        return list(places.values())[:_MOST]

    def imports(self, path: str) -> list[str]:
        """Return the repository's files that a file imports, sorted.

        They include the files in which the imported names are defined, but not those behind the
        helpers of tests.
        """
        if path not in self._files.texts:
            return []
        if path not in self._imports:
            syntax = self._files.syntax(path)
            found = {
                file for each in syntax.imports for file in self._find_imported_files(path, each)
            }
            found.update(self._visible(path))
            self._imports[path] = sorted(found - {path})
        return list(self._imports[path])

    def _visible(self, path: str) -> Iterator[str]:
        """Yield the files of the same package, whose names need no import."""
        if path in self._files.tests:
            text = self._files.texts[path]
            for peer in self._modules.peers(path):
                stem = PurePosixPath(peer).stem
                if path.endswith(".go") or re.search(rf"\b{re.escape(stem)}\b", text):
                    yield peer

    def _find_imported_files(self, path: str, each: Import) -> list[str]:
        """Return the files of an imported module and of the imported name."""
        key = (path.rpartition("/")[0] if family_of(path) != "rust" else path, each)
        if key not in self._origins:
            module = self._resolver.import_module(path, each)
            found = [module] if isinstance(module, Entity) else []
            if found and each.name not in (None, "*"):
                found += self._origin(module, each.name or "")
            files = [each.path for each in found if not each.path.endswith("/")]
            if family_of(path) == "java" and each.name != "*":
                files = files[1:]  # a package is no file
            elif files and family_of(path) in ("go", "java"):
                files = self._modules.peers(files[0])
            self._origins[key] = files
        return self._origins[key]

    def _origin(self, module: Found, name: str) -> list[Entity]:
        """Return the definition of a module's name, or nothing if the text does not tell.

        Helpers of tests are not searched for names that they have from elsewhere.
        """
        if isinstance(module, Entity) and module.path in self._files.tests:
            path = self._modules.submodule(module.path, name)
            return [] if path is None else [Entity(path)]
        found = self._resolver.member(module, name)
        return [found] if isinstance(found, Entity) else []

    # From references to definitions

    def _lead(self, path: str, reference: ChainReference) -> Found:
        """Return the definition that is used, not an instance of it."""
        found = self._resolver.resolve(path, reference.scope, reference.chain)
        if isinstance(found, Entity) and found.is_instance:
            return self._resolver.member(found, "__call__") if reference.is_call else FOREIGN
        return found

    def _hits(
        self, path: str, reference: ChainReference, targets: Sequence[Definition]
    ) -> tuple[list[Definition], bool]:
        """Return the targets that a reference leads to, and True if that is certain."""
        found = self._lead(path, reference)
        if found is None:
            return [target for target in targets if self._may_be(target, path, reference)], False
        if not isinstance(found, Entity):
            return [], False
        key = _key(found)
        exact = [
            target
            for target in targets
            if _key(target) == key or (reference.is_call and _get_constructed_class(target) == key)
        ]
        return (exact, True) if exact else ([t for t in targets if self._overrides(t, key)], False)

    def _targets(self, path: str, reference: ChainReference) -> tuple[Sequence[Definition], bool]:
        """Return the definitions that a reference executes, and True if that is certain."""
        found = self._lead(path, reference)
        if found is None:
            named = self._find_definitions(reference.chain[-1])[:_MOST]
            return [target for target in named if self._may_be(target, path, reference)], False
        if not isinstance(found, Entity):
            return [], False
        executed = _USABLE if reference.is_call else ("function", "method")
        targets = self._with_key(*_key(found))
        return [target for target in targets if target.kind in executed], True

    def _may_be(self, target: Definition, path: str, reference: ChainReference) -> bool:
        """Return True if an unresolved reference could refer to a definition of its name."""
        if target.name != reference.chain[-1] or family_of(target.path) != family_of(path):
            return False
        if len(reference.chain) > 1:
            is_executed = reference.is_call or self._resolver.is_property(Entity(*_key(target)))
            return target.kind == "method" and is_executed
        is_global = target.kind in _USABLE and "." not in target.qualified
        return is_global and bool(self._files.imports(path, "*"))

    def _overrides(self, target: Definition, key: Key) -> bool:
        """Return True if a call of a base class's method may run this method."""
        path, qualified = key
        owner, _, name = qualified.rpartition(".")
        if target.kind != "method" or target.name != name:
            return False
        above = self._resolver.ancestors(Entity(target.path, target.qualified.rpartition(".")[0]))
        return (path, owner) in map(_key, above)

    # From names to references

    def _names_of(self, targets: Iterable[Definition]) -> set[str]:
        """Return the last names by which definitions can be referred to."""
        names: set[str] = set()
        for target in targets:
            names.add(target.name)
            if target.kind == "class":
                names.add("cls")
            if constructed := _get_constructed_class(target):
                names |= {"cls", constructed[1].rpartition(".")[2]}
        return names.union(*(self._files.aliases.get(name, ()) for name in names))

    def _references(self, names: set[str]) -> Iterator[tuple[str, ChainReference]]:
        containing = {path for name in names for path in self._files.containing(name)}
        for path in self._files.texts:
            if path in containing:
                for reference in self._files.references(path, names):
                    yield path, reference

    def _inside(self, definition: Definition) -> Iterator[ChainReference]:
        """Yield the references in a definition, including those in nested ones."""
        inner = f"{definition.qualified}."
        if definition.path not in self._references_of:
            self._references_of = {definition.path: [*self._files.references(definition.path)]}
        for reference in self._references_of[definition.path]:
            is_within = definition.start <= reference.line <= definition.end
            if is_within and f"{reference.scope}.".startswith(inner if inner != "." else ""):
                yield reference

    # From names to definitions

    def _find_definitions(self, name: str) -> list[Definition]:
        """Return the definitions of a name."""
        if name not in self._by_name:
            paths = {*self._files.containing(name), *self._modules_named.get(name, ())}
            self._by_name[name] = [
                definition
                for path in self._files.texts
                if path in paths
                for definition in self.list_definitions(path)
                if definition.name == name
            ]
        return self._by_name[name]

    @cached_property
    def _modules_named(self) -> dict[str, list[str]]:
        """The files of the modules by the last part of their names."""
        found: dict[str, list[str]] = {}
        for path, name in self._names.items():
            found.setdefault(name.rpartition(".")[2], []).append(path)
        return found

    def _with_key(self, path: str, qualified: str) -> list[Definition]:
        found = self._files.find(path, qualified) if path in self._files.texts else []
        return [self._define(path, each) for each in found[:_MOST]]

    def _members(self, owner: Definition, names: Sequence[str]) -> list[Definition]:
        """Return the definitions that names lead to from a module or class."""
        found: Found = Entity(*_key(owner)) if owner.kind in ("module", "class") else None
        for name in names:
            found = self._resolver.member(found, name)
        return self._with_key(*_key(found)) if isinstance(found, Entity) else []

    def _define(self, path: str, found: DefinitionSyntax) -> Definition:
        return Definition(path, self._names[path], *found)

    def _use(
        self, path: str, reference: ChainReference, targets: Sequence[Definition], is_certain: bool
    ) -> Use:
        (inside, *_) = self._with_key(path, reference.scope) or self.list_definitions(path)
        return Use(
            path=path,
            line=reference.line,
            text=_text(reference.chain),
            inside=inside,
            targets=tuple(targets),
            is_certain=is_certain,
            is_call=reference.is_call,
        )


def _key(found: Definition | Entity) -> Key:
    return found.path, found.qualified


def _get_constructed_class(definition: Definition) -> Key | None:
    """Return the class of a constructor. Calls of the class are calls of the constructor."""
    owner = definition.qualified.rpartition(".")[0]
    named = (*_CONSTRUCTORS, owner.rpartition(".")[2])
    is_constructor = definition.kind == "method" and definition.name in named
    return (definition.path, owner) if is_constructor else None


def _text(chain: Chain) -> str:
    shown = ("…" if part in (ANYTHING, LITERAL) else part for part in chain)
    return ".".join(shown).replace(f".{CALL}", CALL)


def _parts(symbol: str, paths: Iterable[str]) -> list[str]:
    """Return the names in a symbol, which may begin with one of the paths or end in a call."""
    text = symbol.strip().strip("`").partition("(")[0].removeprefix("self.").removeprefix("cls.")
    match = _PATH.fullmatch(text)
    if match and any(f"/{path}".endswith(f"/{match['file']}") for path in paths):
        text = f"{match['stem'].removesuffix('/__init__').replace('/', '.')}.{match['rest'] or ''}"
    return [part for part in re.split(r"::|[.#]", text) if part]


def _ends(definition: Definition, parts: Sequence[str]) -> bool:
    """Return True if parts are the end of a definition's full name, or of its path and name."""
    inside = definition.qualified.split(".") if definition.qualified else []
    path = str(PurePosixPath(definition.path).with_suffix("")).removesuffix("/__init__")
    names = ([*definition.module.split("."), *inside], [*path.split("/"), *inside])
    return any(full[-len(parts) :] == list(parts) for full in names)
