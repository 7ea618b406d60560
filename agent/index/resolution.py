"""Resolve a chain of names at a location to its definition, across files.

Only the text is used: imports, scopes, base classes, annotations, and assignments from classes or
annotated functions. Nothing is executed or guessed.
"""

import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agent.index.files import SourceFiles
from agent.index.languages import ANYTHING, CALL, LITERAL, Chain
from agent.index.modules import Modules, family_of
from agent.index.syntax import Import, join

_MOST_STEPS = 100
"""Names that are followed for one chain before the search ends without a result.

Imports, base classes and assignments may be cyclic, or branch without end. Real code needs 30, and
each takes several frames of the interpreter's stack.
"""

_RECEIVERS = {"self": True, "this": True, "cls": False, "Self": False}
"""Names of the object or class around a method; True for an instance."""
_PROPERTY = re.compile(r"@(?:\w+\.)*(?:cached_)?property\b")
_BUILT_IN = frozenset(
    [*dir(builtins), "string", "boolean", "number", "error", "usize", "u8", "i32"]
)


class Entity(NamedTuple):
    """A module, class or function of the repository, or an instance of such a class."""

    path: str
    """For a package without a file: its folder, with a `/` at the end."""
    qualified: str = ""
    is_instance: bool = False


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """An object of another distribution, the standard library or the language."""


Found = Entity | ForeignObject | None
"""The object that a chain leads to; None if the text does not determine it."""

FOREIGN = ForeignObject()
_UNBOUND = ForeignObject()


class Resolver:
    """Resolves names in one state of the repository, and caches the results."""

    def __init__(self, files: SourceFiles, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._known: dict[tuple[str, str, Chain], Found] = {}
        self._left = 0
        self._following: set[tuple[str, str]] = set()

    def resolve(self, path: str, scope: str, chain: Chain) -> Found:
        """Return the object that a chain leads to from a scope of a file."""
        question = (path, scope, chain)
        if question not in self._known:
            self._left = _MOST_STEPS
            self._known[question] = self._follow(path, scope, chain)
        return self._known[question]

    def member(self, owner: Found, name: str) -> Found:
        """Return the object that a name refers to after `owner.`; `CALL` is a name, too."""
        self._left = _MOST_STEPS
        return self._member(owner, name)

    def import_module(self, path: str, imported: Import) -> Found:
        """Return the module from which a file imports."""
        self._left = _MOST_STEPS
        return self._module(path, imported.module)

    def ancestors(self, entity: Entity) -> tuple[Entity, ...]:
        """Return the base classes of a class in the repository, and theirs, nearest first."""
        self._left = _MOST_STEPS
        return self._above(entity)

    def is_property(self, entity: Entity) -> bool:
        """Return True if reading an attribute calls this method."""
        found = self._files.find(entity.path, entity.qualified)
        return any(_PROPERTY.match(each.signature) for each in found)

    def _follow(self, path: str, scope: str, chain: Chain) -> Found:
        self._left -= 1
        if self._left < 0:
            return None
        found, rest = self._look_up(path, scope, chain[0]), chain[1:]
        if chain[0] == "super" and (owner := self._class_around(path, scope)):
            rest = rest[1:] if rest[:1] == (CALL,) else rest
            found = self._first_member(self._above(owner), rest[0]) if rest else None
            rest = rest[1:]
        for name in rest:
            found = self._member(found, name)
        return found

    # Names in a scope

    def _look_up(self, path: str, scope: str, name: str) -> Found:
        if name in (ANYTHING, LITERAL):
            return FOREIGN if name == LITERAL else None
        if name in _RECEIVERS and (owner := self._class_around(path, scope)):
            return owner._replace(is_instance=_RECEIVERS[name])
        for outer in self._scopes(path, scope):
            if (found := self._in_scope(path, outer, name)) is not _UNBOUND:
                return found
        if (found := self._in_module(path, name)) is not _UNBOUND:
            return found
        if family_of(path) == "rust" and (module := self._modules.find_imported(name, path)):
            return Entity(module)
        return FOREIGN if name[:1].isupper() or name in _BUILT_IN else None

    def _scopes(self, path: str, scope: str) -> Iterator[str]:
        """Yield the scopes in which a name is looked up, from the inside out.

        The names of a class are visible directly in its body, and in its methods only in Java.
        """
        yield scope
        kinds = self._files.kinds(path)
        while scope:
            scope = scope.rpartition(".")[0]
            if kinds.get(scope) != "class" or path.endswith(".java"):
                yield scope

    def _class_around(self, path: str, scope: str) -> Entity | None:
        kinds = self._files.kinds(path)
        while scope and kinds.get(scope) != "class":
            scope = scope.rpartition(".")[0]
            if scope and scope not in kinds and path.endswith(".go"):
                return None
        return Entity(path, scope) if scope else None

    def _in_scope(self, path: str, scope: str, name: str) -> Found:
        """Return the object of a name that a scope itself binds, or `_UNBOUND`."""
        full = join(scope, name)
        if full in self._files.kinds(path):
            return Entity(path, full)
        bindings = self._files.bindings(path)
        if full not in bindings:
            return _UNBOUND
        if not bindings[full] and not scope and self._files.imports(path, name):
            return _UNBOUND  # what an import takes apart is also a variable
        place = (path, full)
        if place in self._following:
            return None
        self._following.add(place)
        found = {self._follow(path, each.scope, each.chain) for each in bindings[full]}
        self._following.discard(place)
        return found.pop() if len(found) == 1 else None

    def _in_module(self, path: str, name: str) -> Found:
        """Return what a name means in a module beyond what it binds itself, or `_UNBOUND`."""
        imported = [self._resolve_import(path, each) for each in self._files.imports(path, name)]
        if imported:
            return next((each for each in imported if isinstance(each, Entity)), imported[0])
        for peer in self._modules.peers(path):
            if peer != path and (found := self._in_scope(peer, "", name)) is not _UNBOUND:
                return found
        return self._by_star(path, name)

    def _resolve_import(self, path: str, each: Import) -> Found:
        if each.name is None:
            is_whole = each.alias or family_of(path) != "python"
            return self._module(path, each.module if is_whole else each.module.partition(".")[0])
        module = Entity(path) if each.module == "." and path.endswith(_SCRIPTS) else None
        return self._member(module or self._module(path, each.module), each.name)

    def _module(self, path: str, module: str) -> Found:
        if (found := self._modules.find_imported(module, path)) is not None:
            return Entity(found)
        separator = {"rust": "::", "java": "."}.get(family_of(path))
        before, _, last = module.rpartition(separator) if separator else ("", "", "")
        self._left -= 1
        if not before or self._left < 0:
            return FOREIGN
        return self._member(self._module(path, before), last)

    def _by_star(self, path: str, name: str) -> Found:
        """Return the object bound to a name by an import of all names, in any module it reaches."""
        if name.startswith("_"):
            return _UNBOUND
        reached, waiting = {path}, [path]
        while waiting:
            importer = waiting.pop()
            for star in reversed(self._files.imports(importer, "*")):
                module = self._module(importer, star.module)
                if not isinstance(module, Entity) or module.path in reached:
                    continue
                reached.add(module.path)
                for file in self._read_peers(module.path):
                    for found in (
                        self._resolve_export(file, join(module.qualified, name)),
                        self._resolve_name(file, name),
                    ):
                        if found is not _UNBOUND:
                            return found
                    waiting.append(file)
        return _UNBOUND

    def _resolve_name(self, path: str, name: str) -> Found:
        self._left -= 1
        imports = self._files.imports(path, name) if self._left > 0 else []
        return self._resolve_import(path, imports[0]) if imports else _UNBOUND

    def _read_peers(self, path: str) -> list[str]:
        return [] if path.endswith("/") else self._modules.peers(path)

    # Members of an object

    def _member(self, owner: Found, name: str) -> Found:
        self._left -= 1
        if not isinstance(owner, Entity) or self._left < 0:
            return owner if isinstance(owner, ForeignObject) else None
        if not owner.qualified:
            return self._module_member(owner, name)
        kind = self._files.kinds(owner.path).get(owner.qualified)
        if kind in ("class", "module"):
            if name == CALL:
                return None if owner.is_instance else owner._replace(is_instance=True)
            return self._first_member([owner, *self._above(owner)], name)
        if name == CALL:
            return self._result(owner)
        value = self._result(owner) if self.is_property(owner) else None
        is_function = isinstance(value, Entity) and not value.is_instance
        return None if is_function and self._is_function(value) else self._member(value, name)

    def _is_function(self, found: Found) -> bool:
        if not isinstance(found, Entity) or not found.qualified:
            return False
        return self._files.kinds(found.path).get(found.qualified) != "class"

    def _result(self, function: Entity) -> Found:
        """Return the result of calling a function, by its annotation."""
        found = self._in_scope(function.path, "", f"{function.qualified}{CALL}")
        return None if found is _UNBOUND else found

    def _module_member(self, module: Entity, name: str) -> Found:
        for file in self._read_peers(module.path):
            for found in (self._resolve_export(file, name), self._in_module_once(file, name)):
                if found is not _UNBOUND and found is not None:
                    return found
        path = self._modules.submodule(module.path, name)
        return None if path is None else Entity(path)

    def _resolve_export(self, path: str, full: str) -> Found:
        """Return what a module itself defines. Its other variables are not read for that."""
        scope, _, name = full.rpartition(".")
        return self._in_scope(path, scope, name) if self._files.find(path, full) else _UNBOUND

    def _in_module_once(self, path: str, name: str) -> Found:
        """Return what a module has under a name from others, without following a circle."""
        place = (path, f"import {name}")
        if place in self._following:
            return None
        self._following.add(place)
        found = self._in_module(path, name)
        self._following.discard(place)
        return None if found is FOREIGN and self._modules.submodule(path, name) else found

    def _first_member(self, classes: Iterable[Entity], name: str) -> Found:
        for place in classes:
            for file in self._modules.peers(place.path):
                if (found := self._in_scope(file, place.qualified, name)) is not _UNBOUND:
                    return found
        return None

    def _above(self, entity: Entity) -> tuple[Entity, ...]:
        found = {Entity(entity.path, entity.qualified): None}
        waiting = list(found)
        while waiting and self._left > 0:
            bases = [base for base in self._bases(waiting.pop(0)) if base not in found]
            found |= dict.fromkeys(bases)
            waiting += bases
        return tuple(found)[1:]

    def _bases(self, entity: Entity) -> Iterator[Entity]:
        scope = entity.qualified.rpartition(".")[0]
        for file in self._modules.peers(entity.path):
            for base in self._files.syntax(file).bases.get(entity.qualified, ()):
                place = (file, f"base {entity.qualified} {base}")
                if place not in self._following:
                    self._following.add(place)
                    found = self._follow(file, scope, base)
                    self._following.discard(place)
                    if isinstance(found, Entity):
                        yield found._replace(is_instance=False)


_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
