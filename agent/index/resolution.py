"""Resolve a chain of names at a location to its definition, across files.

Only the text is used: imports, scopes, base classes, annotations, and assignments from classes or
annotated functions. Nothing is executed or guessed.
"""

import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agent.index.chains import ANYTHING, CALL, ENTER, LITERAL, Chain
from agent.index.files import Files
from agent.index.imports import Imported
from agent.index.modules import Modules
from agent.index.syntax import (
    ONLY_UNKNOWN,
    Assigned,
    Binding,
    Defined,
    Receiver,
    Scope,
    Unknown,
    enclosing,
)

_FUNCTIONS = ("function", "method")

_DEEPEST = 40
"""Maximum number of names to follow before the search ends without a result.

It is far below the interpreter's own limit, and more than real code needs.
"""


class Entity(NamedTuple):
    """A module, class or function of the repository, or an instance of such a class."""

    path: str
    """For a package without a file: its folder, with a `/` at the end."""
    scope: int = 0
    is_instance: bool = False


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of another distribution, the standard library or the language."""


Found = Entity | Foreign | None
"""The object that a chain leads to; None if the text does not determine it."""

FOREIGN = Foreign()
_UNASKED = Foreign()

_Question = tuple[str, int, Chain]
"""A chain in a scope of a file."""

_FROM_OUTSIDE = -1
"""Used instead of a scope: a name of the module as seen by importers."""


class Resolver:
    """Resolves names in one state of the repository, and caches the results.

    Imports, base classes and assignments may be cyclic. Intermediate results of a query that met a
    cycle may be incomplete. They are discarded after the query, so that no result depends on
    earlier queries.
    """

    def __init__(self, files: Files, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._known: dict[_Question, Found] = {}
        self._ancestors: dict[Entity, tuple[Entity, ...]] = {}
        self._starred: dict[str, tuple[Entity, ...]] = {}
        # State of the current query:
        self._asked: list[_Question] = []
        self._found_out: list[_Question] = []
        self._met_a_cycle = False

    def scope(self, entity: Entity) -> Scope | None:
        """Return the scope of an entity, or None for a package without a file."""
        file = self._files.get(entity.path)
        return file.scopes[entity.scope] if file else None

    def resolve(self, path: str, scope: int, chain: Chain) -> Found:
        """Return the object that a chain leads to from a scope of a file."""
        home = self._home(path, scope, chain[0])
        if home is None:
            return None
        question = (path, home, chain)
        found = self._known.get(question, _UNASKED)
        if found is _UNASKED:
            found = self._ask(question)
            self._settle()
            self._known[question] = found
        return found

    def _home(self, path: str, scope: int, name: str) -> int | None:
        """Return the scope that binds a name, whose other users then share one answer.

        The result is None if the name has an unknown value there.
        """
        if name == ANYTHING:
            return None
        if name == "super":
            return scope
        scopes = self._files[path].scopes
        for index in enclosing(scopes, scope):
            bindings = scopes[index].bindings
            if name in bindings:
                return None if bindings[name] is ONLY_UNKNOWN else index
        return 0

    def member(self, owner: Found, name: str) -> Found:
        """Return the object that a name refers to after `owner.`; `CALL` and `ENTER` are names,
        too.
        """
        found = self._member(owner, name)
        self._settle()
        return found

    def ancestors(self, entity: Entity) -> tuple[Entity, ...]:
        """Return the base classes of a class in the repository, and theirs, nearest first."""
        found = self._above(entity)
        self._settle()
        return found

    def _settle(self) -> None:
        if self._met_a_cycle:
            for question in self._found_out:
                del self._known[question]
        self._found_out.clear()
        self._met_a_cycle = False

    def _answer(self, question: _Question) -> Found:
        found = self._known.get(question, _UNASKED)
        return self._ask(question) if found is _UNASKED else found

    def _ask(self, question: _Question) -> Found:
        if question in self._asked or len(self._asked) >= _DEEPEST:
            self._met_a_cycle = True
            return None
        self._asked.append(question)
        path, scope, chain = question
        if scope == _FROM_OUTSIDE:
            found = self._module_member(Entity(path), chain[0])
        else:
            found = self._follow(path, scope, chain)
        self._asked.pop()
        self._known[question] = found
        self._found_out.append(question)
        return found

    def _follow(self, path: str, scope: int, chain: Chain) -> Found:
        if chain[:2] == ("super", CALL) and len(chain) > 2:
            found, chain = self._of_super(path, scope, chain[2]), chain[2:]
        else:
            found = self._look_up(path, scope, chain[0])
        for name in chain[1:]:
            found = self._member(found, name)
        return found

    def _look_up(self, path: str, scope: int, name: str) -> Found:
        if name in (ANYTHING, LITERAL):
            return FOREIGN if name == LITERAL else None
        file = self._files[path]
        for index in enclosing(file.scopes, scope):
            if bindings := file.scopes[index].bindings.get(name):
                return self._bound(path, bindings)
        if (found := self._by_star(path, name)) is not None:
            return found
        return FOREIGN if hasattr(builtins, name) else None

    def _bound(self, path: str, bindings: Iterable[Binding]) -> Found:
        """Return the object that all bindings of a name agree on.

        A definition or import in the repository takes precedence over others, which are for another
        platform or version.
        """
        found: set[Found] = set()
        for binding in bindings:  # not by `match`, which takes much longer
            if isinstance(binding, Assigned):
                found.add(self._answer((path, binding.scope, binding.chain)))
            elif isinstance(binding, Unknown):
                found.add(None)
            elif isinstance(binding, Imported):
                imported = self._imported(path, binding)
                if isinstance(imported, Entity):
                    return imported
                found.add(imported)
            elif isinstance(binding, Defined):
                return Entity(path, binding.scope)
            elif isinstance(binding, Receiver):
                found.add(Entity(path, binding.scope, binding.is_instance))
        return found.pop() if len(found) == 1 else None

    def _imported(self, path: str, binding: Imported) -> Found:
        module = self._modules.imported(binding.module, binding.level, path)
        if module is None:
            return FOREIGN
        if binding.name is None:
            return Entity(module)
        return self._member(Entity(module), binding.name)

    # Members of an object

    def _member(self, owner: Found, name: str) -> Found:
        if isinstance(owner, Foreign):
            return None if name == ENTER else FOREIGN
        if owner is None:
            return None
        scope = self.scope(owner)
        if scope is None:
            return self._submodule(owner, name)
        if name == CALL:
            return self._result(owner, scope)
        kind = scope.definition.kind
        if kind == "module":
            return self._answer((owner.path, _FROM_OUTSIDE, (name,)))
        if kind in _FUNCTIONS:
            value = self._result(owner, scope) if scope.is_property else None
            return None if self._is_function(value) else self._member(value, name)
        return owner if name == ENTER else self._class_member(owner, name)

    def _is_function(self, found: Found) -> bool:
        scope = self.scope(found) if isinstance(found, Entity) else None
        return scope is not None and scope.definition.kind in _FUNCTIONS

    def _result(self, owner: Entity, scope: Scope) -> Found:
        """Return the result of calling an entity."""
        if scope.definition.kind == "class":
            return None if owner.is_instance else owner._replace(is_instance=True)
        if scope.returns is None:
            return None
        if scope.returns == ("Self", CALL):
            return Entity(owner.path, scope.parent, is_instance=True)
        return self._answer((owner.path, scope.parent, scope.returns))

    def _submodule(self, package: Entity, name: str) -> Found:
        path = self._modules.submodule(package.path, name)
        return None if path is None else Entity(path)

    def _module_member(self, module: Entity, name: str) -> Found:
        if bindings := self._files[module.path].scopes[0].bindings.get(name):
            found = self._bound(module.path, bindings)
            if found is not None:
                return found
        found = self._submodule(module, name)
        return found if found is not None else self._by_star(module.path, name)

    def _by_star(self, path: str, name: str) -> Found:
        """Return the object bound to a name by `from module import *`, in any module it reaches."""
        if name.startswith("_"):
            return None
        for module in self._reached_by_star(path):
            if bindings := self._files[module.path].scopes[0].bindings.get(name):
                return self._bound(module.path, bindings)
        return None

    def _reached_by_star(self, path: str) -> tuple[Entity, ...]:
        if path not in self._starred:
            reached: dict[str, Entity] = {}
            waiting = [path]
            while waiting:
                importer = waiting.pop()
                for star in reversed(self._files[importer].stars):
                    module = self._modules.imported(star.module, star.level, importer)
                    if module and module not in reached and self._files.get(module):
                        reached[module] = Entity(module)
                        waiting.append(module)
            self._starred[path] = tuple(reached.values())
        return self._starred[path]

    def _class_member(self, owner: Entity, name: str) -> Found:
        return self._first_member([owner, *self._above(owner)], name)

    def _of_super(self, path: str, scope: int, name: str) -> Found:
        """Return the object that `super().name` refers to."""
        scopes = self._files[path].scopes
        while scope and scopes[scope].definition.kind != "class":
            scope = scopes[scope].parent
        return self._first_member(self._above(Entity(path, scope)), name) if scope else None

    def _first_member(self, classes: Iterable[Entity], name: str) -> Found:
        for place in classes:
            scope = self.scope(place)
            if scope and (bindings := scope.bindings.get(name)):
                return self._bound(place.path, bindings)
        return None

    def _above(self, entity: Entity) -> tuple[Entity, ...]:
        entity = Entity(entity.path, entity.scope)
        if entity in self._ancestors:
            return self._ancestors[entity]
        found = {entity: None}
        waiting = [entity]
        while waiting:
            bases = [base for base in self._bases(waiting.pop(0)) if base not in found]
            found |= dict.fromkeys(bases)
            waiting += bases
        ancestors = tuple(found)[1:]
        if not self._met_a_cycle:
            self._ancestors[entity] = ancestors
        return ancestors

    def _bases(self, entity: Entity) -> Iterator[Entity]:
        scope = self.scope(entity)
        if scope is not None:
            for base in scope.bases:
                found = self._answer((entity.path, scope.parent, base))
                if isinstance(found, Entity):
                    yield found
