"""Definitions, callers and callees of a repository's Python code, from its syntax trees."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain as concatenated
from pathlib import PurePosixPath

from agent.index.chains import ANYTHING, CALL, LITERAL, Chain
from agent.index.definitions import Definition, Key, Use
from agent.index.files import Files
from agent.index.imports import imports
from agent.index.modules import Modules
from agent.index.resolution import FOREIGN, Entity, Found, Resolver
from agent.index.syntax import DefinitionSyntax, Reference
from agent.testfiles import TestFiles

_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_USABLE = ("class", "function", "method")
_PATH = re.compile(r"(?P<stem>.+)\.pyi?(?:(?:::?|\.)(?P<rest>.+))?", re.DOTALL)


class SymbolIndex:
    """The symbols of one state of a repository.

    A file is parsed when a question first needs it, and not again if it has not changed since this
    process made another index. All results are in a fixed order: code before tests, then by path
    and line. Only one thread may ask at a time.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Index the Python files among `texts`, files by their paths."""
        self._files = Files(texts)
        self._modules = Modules(self._files.texts)
        self._names = {path: self._modules.name(path) for path in self._files.texts}
        self._resolver = Resolver(self._files, self._modules)
        self._definitions: dict[str, list[Definition]] = {}
        self._imports: dict[str, list[str]] = {}
        self._origins: dict[Key, str | None] = {}
        self._by_qualified: dict[str, dict[str, list[Definition]]] = {}
        self._scopes: dict[str, dict[str, int]] = {}

    @property
    def test_files(self) -> TestFiles:
        """The answer to which files of the repository are tests."""
        return self._files.test_files

    @property
    def paths(self) -> list[str]:
        """The Python files."""
        return list(self._files.texts)

    def unparsed(self, path: str) -> str | None:
        """Return in one line why this Python cannot parse a file, or None if it can."""
        return self._files.unparsed(path)

    def defined_in(self, path: str) -> list[Definition]:
        """Return the definitions of a file by line, the module first.

        The result is empty if the file does not parse.
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
        if named := [found for found in self._named(parts[-1]) if _ends(found, parts)]:
            return named
        for split in range(len(parts) - 1, 0, -1):
            owners = [f for f in self._named(parts[split - 1]) if _ends(f, parts[:split])]
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
            for path, reference in self._references(self._names_of(targets))
            for hits, is_certain in [self._hits(path, reference, targets)]
            if hits
            for use in self._uses(path, reference, hits, is_certain)
        )
        return sorted(dict.fromkeys(uses), key=self._certain_first)

    def _certain_first(self, use: Use) -> tuple[bool, bool, str, int, str]:
        of_tests = use.path in self._files.tests
        return not use.is_certain, of_tests, use.path, use.line, use.text

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
        """The number of certain uses of every definition in code that is no test's."""
        counts: Counter[Key] = Counter()
        for path in self._files.texts:
            file = None if path in self._files.tests else self._files.get(path)
            for reached, scope, is_call, count in file.counts() if file else ():
                found = self._lead(path, scope, reached, is_call)
                if isinstance(found, Entity):
                    counts[self._key(found)] += count
        return counts

    def imports(self, path: str) -> list[str]:
        """Return the repository's files that a file imports, sorted.

        They include the files in which the imported names are defined, but not those behind the
        helpers of tests.
        """
        if path not in self._imports:
            found = {each for each in self._imported(path) if not each.endswith("/")}
            self._imports[path] = sorted(found - {path})
        return list(self._imports[path])

    def _imported(self, path: str) -> Iterator[str]:
        """Yield the modules and packages that a file imports, and the files of their names."""
        for imported in dict.fromkeys(each for each, _ in imports(self._files.texts.get(path, ""))):
            module = self._modules.imported(imported.module, imported.level, path)
            if module is None:
                continue
            yield module
            if imported.name is not None and (origin := self._origin(module, imported.name)):
                yield origin

    def _origin(self, module: str, name: str) -> str | None:
        """Return the file that defines a name of a module, or None if the text does not tell.

        Helpers of tests are not searched for names that they have from elsewhere.
        """
        key = (module, name)
        if key not in self._origins:
            if module in self._files.tests:
                self._origins[key] = self._modules.submodule(module, name)
            else:
                found = self._resolver.member(Entity(module), name)
                self._origins[key] = found.path if isinstance(found, Entity) else None
        return self._origins[key]

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
            named = self._declared(reference.chain[-1])
            return [target for target in named if self._may_be(target, path, reference)], False
        if not isinstance(found, Entity):
            return [], False
        executed = _USABLE if reference.is_call else ("function", "method")
        targets = self._with_key(self._key(found))
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

    def _references(self, names: set[str]) -> Iterator[tuple[str, Reference]]:
        containing = {path for name in names for path in self._files.containing(name)}
        for path in self._files.texts:
            file = self._files.get(path) if path in containing else None
            for reference in file.references(names) if file else ():
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
        for text in self._files.texts.values():
            for imported, alias in imports(text):
                if alias and imported.name:
                    found.setdefault(imported.name, set()).add(alias)
        return found

    # From names to definitions

    def _named(self, name: str) -> list[Definition]:
        """Return the definitions of a name."""
        paths = {*self._files.containing(name), *self._modules_named.get(name, ())}
        return [
            definition
            for path in self._files.texts
            if path in paths
            for definition in self.defined_in(path)
            if definition.name == name
        ]

    def _declared(self, name: str) -> list[Definition]:
        """Return the classes, functions and methods of a name."""
        return [
            definition
            for path in self._files.declaring(name)
            for definition in self.defined_in(path)
            if definition.name == name and definition.kind in _USABLE
        ]

    @cached_property
    def _modules_named(self) -> dict[str, list[str]]:
        """The files of the modules by the last part of their names."""
        found: dict[str, list[str]] = {}
        for path, name in self._names.items():
            found.setdefault(name.rpartition(".")[2], []).append(path)
        return found

    def _with_key(self, key: Key) -> list[Definition]:
        path, qualified = key
        if path not in self._by_qualified:
            named = self._by_qualified[path] = {}
            for definition in self.defined_in(path):
                named.setdefault(definition.qualified, []).append(definition)
        return self._by_qualified[path].get(qualified, [])

    def _entity(self, key: Key) -> Entity:
        """Return the entity of the first scope of a key."""
        path, qualified = key
        if path not in self._scopes:
            file = self._files.get(path)
            scopes = reversed(list(enumerate(file.scopes))) if file else ()
            self._scopes[path] = {scope.definition.qualified: at for at, scope in scopes}
        return Entity(path, self._scopes[path].get(qualified, 0))

    def _key(self, entity: Entity) -> Key:
        scope = self._resolver.scope(entity)
        return entity.path, scope.definition.qualified if scope else ""

    def _members(self, owner: Definition, names: Sequence[str]) -> list[Definition]:
        """Return the definitions that names lead to from a module or class."""
        found: Found = self._entity(_key(owner)) if owner.kind in ("module", "class") else None
        for name in names:
            found = self._resolver.member(found, name)
        return self._with_key(self._key(found)) if isinstance(found, Entity) else []

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
