"""Definitions, callers and callees of a repository's Python code, from its syntax trees."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as concatenated
from pathlib import PurePosixPath
from typing import NamedTuple

from agent.index.chains import ANYTHING, CALL, LITERAL, Chain
from agent.index.modules import Modules
from agent.index.resolution import FOREIGN, Entity, Found, Resolver
from agent.index.syntax import (
    DefinitionSyntax,
    FileSyntax,
    Imported,
    Kind,
    Reference,
    parse,
)
from agent.index.undisturbed import undisturbed
from agent.paths import is_test_file

_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_USABLE = ("class", "function", "method")
_PATH = re.compile(r"(?P<stem>.+)\.pyi?(?:(?:::?|\.)(?P<rest>.+))?", re.DOTALL)


class Definition(NamedTuple):
    """A module, class, function, method, or variable of a module or class."""

    path: str
    module: str
    """Dotted name by which it is most likely imported."""
    qualified: str
    """Name within the module: `Reader.load`, and `Reader.load.helper` for a nested function.

    Empty for the module itself.
    """
    kind: Kind
    start: int
    """First line, 1-based, including decorators."""
    line: int
    """Line of `def` or `class`."""
    end: int
    """Last line, inclusive."""
    signature: str
    """The header in one line; empty for a module."""
    doc: str
    """The first line of the docstring."""

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


class SymbolIndex:
    """The symbols of one state of a repository.

    Files that have not changed since this process made another index are not parsed again. All
    results are in a fixed order: code before tests, then by path and line.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Index the Python files among `texts`, files by their paths."""
        python = sorted(path for path in texts if path.endswith((".py", ".pyi")))
        with undisturbed():
            parsed = {path: parse(texts[path]) for path in sorted(python, key=_reading_order)}
        self._files = {path: file for path, file in parsed.items() if isinstance(file, FileSyntax)}
        self.unparsed = {path: file for path, file in parsed.items() if isinstance(file, str)}
        """Python files that this Python cannot parse, with the reason in one line."""
        self._modules = Modules(python)
        self._names = {path: self._modules.name(path) for path in self._files}
        self._resolver = Resolver(self._files, self._modules)
        self._definitions: dict[str, list[Definition]] = {}

    @property
    def paths(self) -> list[str]:
        """The files in the index."""
        return list(self._files)

    def defined_in(self, path: str) -> list[Definition]:
        """Return the definitions of a file by line, the module first.

        The result is empty if the file is not in the index.
        """
        if path not in self._definitions:
            file = self._files.get(path)
            found = [self._definition(path, each) for each in file.definitions] if file else []
            self._definitions[path] = found
        return list(self._definitions[path])

    def definitions(self, symbol: str) -> list[Definition]:
        """Return the definitions that a symbol names.

        A symbol is `load`, `Reader.load`, `package.module.Reader.load`,
        `path/to/module.py::Reader.load`, or an inherited or re-exported name such as
        `package.Reader`.
        """
        parts = _parts(symbol)
        if not parts:
            return []
        if named := [found for found in self._by_name.get(parts[-1], ()) if _ends(found, parts)]:
            return named
        for split in range(len(parts) - 1, 0, -1):
            owners = [f for f in self._by_name.get(parts[split - 1], ()) if _ends(f, parts[:split])]
            found = [self._members(owner, parts[split:]) for owner in owners]
            if any(found):
                return list(dict.fromkeys(concatenated.from_iterable(found)))
        return []

    def callers(self, symbol: str) -> list[Use]:
        """Return the uses of the classes, functions and methods that a symbol names.

        Certain uses come before possible ones.
        """
        targets = [found for found in self.definitions(symbol) if found.kind in _USABLE]
        uses = (
            use
            for path, reference in self._named(self._names_of(targets))
            for hits, is_certain in [self._hits(path, reference, targets)]
            if hits
            for use in self._uses(path, reference, hits, is_certain)
        )
        return sorted(dict.fromkeys(uses), key=_certain_first)

    def callees(self, symbol: str) -> list[Use]:
        """Return the repository's definitions that a symbol uses, in the order of the code.

        Uses are calls, properties that are read and functions that are passed on.
        """
        uses = (
            use
            for definition in self.definitions(symbol)
            for reference in self._inside(definition)
            for targets, is_certain in [self._targets(definition.path, reference)]
            if targets
            for use in self._uses(definition.path, reference, targets, is_certain)
        )
        return sorted(dict.fromkeys(uses), key=lambda use: (use.path, use.line, use.text))

    @cached_property
    def use_counts(self) -> Mapping[Key, int]:
        """The number of certain uses of every definition."""
        counts: Counter[Key] = Counter()
        with undisturbed():
            for path, file in self._files.items():
                for reached, scope, is_call, count in file.counts():
                    found = self._lead(path, scope, reached, is_call)
                    if isinstance(found, Entity):
                        counts[self._key(found)] += count
        return counts

    def imports(self, path: str) -> list[str]:
        """Return the repository's files that a file imports, sorted.

        They include the files in which the imported names are defined.
        """
        file = self._files.get(path)
        found: set[str] = set()
        for imported in file.imports if file else ():
            module = self._modules.imported(imported.module, imported.level, path)
            if module is None:
                continue
            found.add(module)
            if imported.name is not None:
                named = self._resolver.member(Entity(module), imported.name)
                found |= {named.path} if isinstance(named, Entity) else set()
        return sorted(module for module in found - {path} if not module.endswith("/"))

    # From references to definitions

    def _leads_to(self, path: str, reference: Reference) -> Found:
        return self._lead(path, reference.scope, reference.chain, reference.is_call)

    def _lead(self, path: str, scope: int, chain: Chain, is_call: bool) -> Found:
        """Return the definition that is used, not an instance of it."""
        found = self._resolver.resolve(path, scope, chain)
        if isinstance(found, Entity) and found.is_instance:
            return self._resolver.member(found, "__call__") if is_call else FOREIGN
        return found

    def _hits(
        self, path: str, reference: Reference, targets: Sequence[Definition]
    ) -> tuple[list[Definition], bool]:
        """Return the targets that a reference leads to, and True if that is certain."""
        found = self._leads_to(path, reference)
        if found is None:
            return [target for target in targets if self._may_be(target, path, reference)], False
        if not isinstance(found, Entity):
            return [], False
        key = self._key(found)
        exact = [
            target
            for target in targets
            if _key(target) == key or (reference.is_call and _constructed(target) == key)
        ]
        return (exact, True) if exact else ([t for t in targets if self._overrides(t, key)], False)

    def _targets(self, path: str, reference: Reference) -> tuple[Sequence[Definition], bool]:
        """Return the definitions that a reference executes, and True if that is certain."""
        found = self._leads_to(path, reference)
        if found is None:
            named = self._by_name.get(reference.chain[-1], ())
            return [target for target in named if self._may_be(target, path, reference)], False
        if not isinstance(found, Entity):
            return [], False
        executed = _USABLE if reference.is_call else ("function", "method")
        targets = self._by_key.get(self._key(found), ())
        return [target for target in targets if target.kind in executed], True

    def _may_be(self, target: Definition, path: str, reference: Reference) -> bool:
        """Return True if an unresolved reference could refer to a definition of its name."""
        if target.name != reference.chain[-1]:
            return False
        if len(reference.chain) > 1:
            is_executed = reference.is_call or self._is_property(target)
            return target.kind == "method" and is_executed
        is_global = target.kind in _USABLE and "." not in target.qualified
        return is_global and bool(self._files[path].stars)

    def _overrides(self, target: Definition, key: Key) -> bool:
        """Return True if a call of a base class's method may run this method."""
        path, qualified = key
        owner, _, name = qualified.rpartition(".")
        if target.kind != "method" or target.name != name:
            return False
        above = self._resolver.ancestors(self._entity((target.path, _owner(target))))
        return (path, owner) in map(self._key, above)

    def _is_property(self, target: Definition) -> bool:
        scope = self._resolver.scope(self._entity(_key(target)))
        return scope is not None and scope.is_property

    # From names to references

    def _names_of(self, targets: Iterable[Definition]) -> set[str]:
        """Return the last names by which definitions can be referred to."""
        names: set[str] = set()
        for target in targets:
            names.add(target.name)
            if target.kind == "class":
                names.add("cls")
            if constructed := _constructed(target):
                names |= {"cls", constructed[1].rpartition(".")[2]}
        return names.union(*(self._aliases.get(name, ()) for name in names))

    def _named(self, names: set[str]) -> Iterator[tuple[str, Reference]]:
        for path, file in self._files.items():
            for reference in file.references(names):
                yield path, reference

    def _inside(self, definition: Definition) -> Iterator[Reference]:
        """Yield the references in a definition, including those in nested ones."""
        file = self._files[definition.path]
        within: set[int] = set()
        for index, scope in enumerate(file.scopes):
            is_it = _is(scope.definition, definition)
            if is_it or (index and scope.parent in within):
                within.add(index)
        for reference in file.references():
            if reference.scope in within:
                yield reference

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        """Aliases in imports, by the name of the definition."""
        found: dict[str, set[str]] = {}
        for file in self._files.values():
            for scope in file.scopes:
                for alias, bindings in scope.bindings.items():
                    for binding in bindings:
                        if isinstance(binding, Imported) and binding.name not in (None, alias):
                            found.setdefault(str(binding.name), set()).add(alias)
        return found

    # From names to definitions

    @cached_property
    def _by_name(self) -> dict[str, list[Definition]]:
        found: dict[str, list[Definition]] = {}
        with undisturbed():
            for definition in concatenated.from_iterable(map(self.defined_in, self._files)):
                found.setdefault(definition.name, []).append(definition)
        return found

    @cached_property
    def _by_key(self) -> dict[Key, list[Definition]]:
        found: dict[Key, list[Definition]] = {}
        for definition in concatenated.from_iterable(self._by_name.values()):
            found.setdefault(_key(definition), []).append(definition)
        return found

    @cached_property
    def _scopes(self) -> dict[Key, int]:
        """The first scope of every key."""
        return {
            (path, scope.definition.qualified): index
            for path, file in self._files.items()
            for index, scope in reversed(list(enumerate(file.scopes)))
        }

    def _entity(self, key: Key) -> Entity:
        return Entity(key[0], self._scopes.get(key, 0))

    def _key(self, entity: Entity) -> Key:
        scope = self._resolver.scope(entity)
        return entity.path, scope.definition.qualified if scope else ""

    def _members(self, owner: Definition, names: Sequence[str]) -> list[Definition]:
        """Return the definitions that names lead to from a module or class."""
        found: Found = self._entity(_key(owner)) if owner.kind in ("module", "class") else None
        for name in names:
            found = self._resolver.member(found, name)
        return self._by_key.get(self._key(found), []) if isinstance(found, Entity) else []

    def _definition(self, path: str, found: DefinitionSyntax) -> Definition:
        return Definition(
            path=path,
            module=self._names[path],
            qualified=found.qualified,
            kind=found.kind,
            start=found.start,
            line=found.line,
            end=found.end,
            signature=found.signature,
            doc=found.doc,
        )

    def _uses(
        self, path: str, reference: Reference, targets: Sequence[Definition], is_certain: bool
    ) -> Iterator[Use]:
        inside = self._definition(path, self._files[path].scopes[reference.scope].definition)
        for line in reference.lines:
            yield Use(
                path=path,
                line=line,
                text=_text(reference.chain),
                inside=inside,
                targets=tuple(targets),
                is_certain=is_certain,
                is_call=reference.is_call,
            )


def _reading_order(path: str) -> tuple[bool, str]:
    return is_test_file(path), path


def _certain_first(use: Use) -> tuple[bool, bool, str, int, str]:
    return not use.is_certain, is_test_file(use.path), use.path, use.line, use.text


def _key(definition: Definition) -> Key:
    return definition.path, definition.qualified


def _owner(definition: Definition) -> str:
    return definition.qualified.rpartition(".")[0]


def _constructed(definition: Definition) -> Key | None:
    """Return the class of a constructor. Calls of the class are calls of the constructor."""
    is_constructor = definition.kind == "method" and definition.name in _CONSTRUCTORS
    return (definition.path, _owner(definition)) if is_constructor else None


def _is(syntax: DefinitionSyntax, definition: Definition) -> bool:
    return (syntax.line, syntax.qualified) == (definition.line, definition.qualified)


def _text(chain: Chain) -> str:
    shown = ("…" if part in (ANYTHING, LITERAL) else part for part in chain)
    return ".".join(shown).replace(f".{CALL}", CALL)


def _parts(symbol: str) -> list[str]:
    """Return the names in a symbol, which may begin with a path or end in a call."""
    text = symbol.strip().strip("`").partition("(")[0].removeprefix("self.").removeprefix("cls.")
    if match := _PATH.fullmatch(text):
        text = f"{match['stem'].removesuffix('/__init__').replace('/', '.')}.{match['rest'] or ''}"
    return [part for part in text.replace("::", ".").split(".") if part]


def _ends(definition: Definition, parts: Sequence[str]) -> bool:
    """Return True if parts are the end of a definition's full name, or of its path and name."""
    inside = definition.qualified.split(".") if definition.qualified else []
    path = str(PurePosixPath(definition.path).with_suffix("")).removesuffix("/__init__")
    names = ([*definition.module.split("."), *inside], [*path.split("/"), *inside])
    return any(full[-len(parts) :] == list(parts) for full in names)
