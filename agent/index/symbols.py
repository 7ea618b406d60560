"""Definitions, callers and callees of a repository's code, from its syntax trees."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from agent.index.chains import ANYTHING, CALL, LITERAL
from agent.index.files import SourceFiles
from agent.index.modules import Modules, family_of
from agent.index.references import ChainReference
from agent.index.resolution import FOREIGN, Entity, Resolver
from agent.index.syntax import Import, Kind
from agent.testfiles import TestFiles


class Definition(NamedTuple):
    """A module, class, function, method, or variable of a module or class."""

    path: str
    module: str
    """The most likely name in imports, with dots."""
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

    @property
    def entity(self) -> Entity:
        return Entity(self.path, self.qualified)

    @property
    def constructed(self) -> Entity | None:
        """The class of a constructor. Calls of the class are calls of the constructor."""
        owner = self.qualified.rpartition(".")[0]
        is_constructor = self.kind == "method" and (
            self.name in (*_CONSTRUCTORS, owner.rpartition(".")[2])
        )
        return Entity(self.path, owner) if is_constructor else None


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
    """True if imports and scopes determine the target.

    Otherwise only the name agrees, or a subclass overrides the determined target.
    """
    is_call: bool


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
    and line. Only one thread can ask at a time.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Index the files of the supported languages among `texts`, files by their paths."""
        self._files = SourceFiles(texts)
        self._modules = Modules(self._files.texts, texts)
        self._names = {path: self._modules.name(path) for path in self._files.texts}
        self._resolver = Resolver(self._files, self._modules)
        self._definitions: dict[str, list[Definition]] = {}
        self._by_name: dict[str, list[Definition]] = {}
        self._imports: dict[str, list[str]] = {}
        self._origins: dict[tuple[str, Import], list[str]] = {}

    @property
    def test_files(self) -> TestFiles:
        """The repository's rules for test files."""
        return self._files.test_files

    @property
    def paths(self) -> list[str]:
        """The files of the supported languages."""
        return list(self._files.texts)

    def list_definitions(self, path: str) -> list[Definition]:
        """Return the definitions of a file by line, the module first."""
        if path not in self._files.texts:
            return []
        if path not in self._definitions:
            self._definitions[path] = [
                Definition(path, self._names[path], *definition)
                for definition in self._files.syntax(path).definitions
            ]
        return list(self._definitions[path])

    def definitions(self, symbol: str) -> list[Definition]:
        """Return the definitions of a symbol.

        A symbol is `load`, `Reader.load`, `package.module.Reader.load`,
        `path/to/module.py::Reader.load`, or an inherited or re-exported name such as
        `package.Reader`.
        """
        parts = _split_symbol(symbol, self._files.texts)
        for size in range(len(parts), 0, -1):
            owners = [
                owner
                for owner in self._find_definitions(parts[size - 1])
                if _ends(owner, parts[:size])
            ]
            if size == len(parts) and owners:
                return owners
            members: list[Definition] = []
            for owner in owners:
                entity: Entity | None = owner.entity if owner.kind in ("module", "class") else None
                for name in parts[size:]:
                    entity = self._resolver.find_member(entity, name)
                members += self._definitions_of(entity)
            if members:
                return list(dict.fromkeys(members))
        return []

    def callers(self, symbol: str) -> list[Use]:
        """Return the uses of the classes, functions and methods that a symbol names.

        Certain uses come before possible ones.
        """
        targets = [each for each in self.definitions(symbol) if each.kind in _USABLE][:_MOST]
        names = {target.name for target in targets}
        for target in targets:
            constructed = target.entity if target.kind == "class" else target.constructed
            if constructed is not None:
                names |= {"cls", constructed.qualified.rpartition(".")[2]}
        names = names.union(*(self._files.aliases.get(name, ()) for name in names))
        containing = {path for name in names for path in self._files.containing(name)}
        uses = (
            self._use(path, reference, hits, is_certain)
            for path in self._files.texts
            if path in containing
            for reference in self._files.references(path, names)
            for hits, is_certain in [self._match(path, reference, targets)]
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
        places = {
            (each.path, each.qualified, each.start, each.end): each
            for each in self.definitions(symbol)[:_MOST]
        }
        references = {
            path: list(self._files.references(path)) for path in {path for path, *_ in places}
        }
        uses = (
            self._use(place.path, reference, targets, is_certain)
            for place in places.values()
            for reference in references[place.path]
            if place.start <= reference.line <= place.end
            and (not place.qualified or f"{reference.scope}.".startswith(f"{place.qualified}."))
            for targets, is_certain in [self._find_executed(place.path, reference)]
            if targets
        )
        return sorted(dict.fromkeys(uses), key=lambda use: (use.path, use.line, use.text))

    def imports(self, path: str) -> list[str]:
        """Return the repository's files that a file imports, sorted.

        They include the files in which the imported names are defined, but not the files behind the
        helpers of tests.
        """
        if path not in self._files.texts:
            return []
        if path not in self._imports:
            statements = self._files.syntax(path).imports
            files = {file for statement in statements for file in self._import(path, statement)}
            if path in self._files.tests:  # names of the same package need no import
                text = self._files.texts[path]
                for peer in self._modules.peers(path):
                    stem = re.escape(PurePosixPath(peer).stem)
                    if path.endswith(".go") or re.search(rf"\b{stem}\b", text):
                        files.add(peer)
            self._imports[path] = sorted(files - {path})
        return list(self._imports[path])

    def _import(self, path: str, statement: Import) -> list[str]:
        """Return the files of an imported module and of the imported name."""
        family = family_of(path)
        key = (path if family == "rust" else path.rpartition("/")[0], statement)
        if key not in self._origins:
            module = self._resolver.find_module(path, statement)
            entities = [module]
            if module is not None and statement.name not in (None, "*"):
                if module.path in self._files.tests:  # names from elsewhere are not followed
                    submodule = self._modules.submodule(module.path, statement.name or "")
                    entities.append(Entity(submodule) if submodule else None)
                else:
                    entities.append(self._resolver.find_member(module, statement.name or ""))
            files = [entity.path for entity in entities if entity and entity != FOREIGN]
            files = [file for file in files if not file.endswith("/")]
            if family == "java" and statement.name != "*":
                files = files[1:]  # a package is not a file
            elif files and family in ("go", "java"):
                files = self._modules.peers(files[0])
            self._origins[key] = files
        return self._origins[key]

    # From references to definitions

    def _match(
        self, path: str, reference: ChainReference, targets: Sequence[Definition]
    ) -> tuple[list[Definition], bool]:
        """Return the targets that a reference leads to, and True if that is certain."""
        entity = self._resolver.resolve(path, reference.scope, reference.chain)
        if entity is None:
            return [target for target in targets if self._may_be(target, path, reference)], False
        exact = [
            target
            for target in targets
            if entity == target.entity or (reference.is_call and entity == target.constructed)
        ]
        return (
            (exact, True)
            if exact
            else (
                [target for target in targets if self._overrides(target, entity)],
                False,
            )
        )

    def _find_executed(self, path: str, reference: ChainReference) -> tuple[list[Definition], bool]:
        """Return the definitions that a reference executes, and True if that is certain."""
        entity = self._resolver.resolve(path, reference.scope, reference.chain)
        if entity is None:
            namesakes = self._find_definitions(reference.chain[-1])[:_MOST]
            return [each for each in namesakes if self._may_be(each, path, reference)], False
        executed = _USABLE if reference.is_call else ("function", "method")
        return [each for each in self._definitions_of(entity) if each.kind in executed], True

    def _may_be(self, target: Definition, path: str, reference: ChainReference) -> bool:
        """Return True if an unresolved reference could refer to a definition of its name."""
        if target.name != reference.chain[-1] or family_of(target.path) != family_of(path):
            return False
        if len(reference.chain) > 1:
            is_executed = reference.is_call or self._resolver.is_property(target.entity)
            return target.kind == "method" and is_executed
        is_global = target.kind in _USABLE and "." not in target.qualified
        return is_global and bool(self._files.imports(path, "*"))

    def _overrides(self, target: Definition, entity: Entity) -> bool:
        """Return True if a call of a base class's method can run this method."""
        owner, _, name = entity.qualified.rpartition(".")
        if target.kind != "method" or target.name != name:
            return False
        subclass = Entity(target.path, target.qualified.rpartition(".")[0])
        return Entity(entity.path, owner) in self._resolver.find_ancestors(subclass)

    def _use(
        self, path: str, reference: ChainReference, targets: Sequence[Definition], is_certain: bool
    ) -> Use:
        scope = self._definitions_of(Entity(path, reference.scope)) or self.list_definitions(path)
        text = ".".join("…" if part in (ANYTHING, LITERAL) else part for part in reference.chain)
        return Use(
            path=path,
            line=reference.line,
            text=text.replace(f".{CALL}", CALL),
            inside=scope[0],
            targets=tuple(targets),
            is_certain=is_certain,
            is_call=reference.is_call,
        )

    # From names to definitions

    def _find_definitions(self, name: str) -> list[Definition]:
        """Return the definitions of a name."""
        if name not in self._by_name:
            paths = {*self._files.containing(name), *self._modules_by_name.get(name, ())}
            self._by_name[name] = [
                definition
                for path in self._files.texts
                if path in paths
                for definition in self.list_definitions(path)
                if definition.name == name
            ]
        return self._by_name[name]

    @cached_property
    def _modules_by_name(self) -> dict[str, list[str]]:
        """The files of the modules by the last part of their names."""
        files: dict[str, list[str]] = {}
        for path, name in self._names.items():
            files.setdefault(name.rpartition(".")[2], []).append(path)
        return files

    def _definitions_of(self, entity: Entity | None) -> list[Definition]:
        if entity is None or entity == FOREIGN:
            return []
        syntax = self._files.find(entity.path, entity.qualified)[:_MOST]
        return [Definition(entity.path, self._names[entity.path], *each) for each in syntax]


def _split_symbol(symbol: str, paths: Iterable[str]) -> list[str]:
    """Return the names in a symbol, which can start with one of the paths or end in a call."""
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
