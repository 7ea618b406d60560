"""From a chain of names at a place to the definition that it leads to, across files.

What is known is what the text says: imports, scopes, base classes, annotations, and
assignments of what a class or an annotated function returns. Nothing is executed or guessed.
"""

import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from agent.index.modules import Modules
from agent.index.syntax import (
    ANYTHING,
    CALL,
    ENTER,
    LITERAL,
    Assigned,
    Binding,
    Chain,
    Defined,
    FileSyntax,
    Imported,
    Receiver,
    Scope,
    Unknown,
    enclosing,
)

_DEEPEST = 24
"""Steps from one name to the next; cyclic imports and assignments end there."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A module, class or function of the repository, or an instance of such a class."""

    path: str
    """Of a package without a file: its folder, with a `/` at the end."""
    scope: int = 0
    is_instance: bool = False


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something of another distribution, the standard library or the language."""


Found = Entity | Foreign | None
"""What a chain leads to; None where the text does not say."""

FOREIGN = Foreign()


class Resolver:
    """Answers for one state of the repository, and remembers the answers."""

    def __init__(self, files: Mapping[str, FileSyntax], modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._reached: dict[tuple[str, int, Chain], Found] = {}
        self._ancestors: dict[Entity, tuple[Entity, ...]] = {}

    def scope(self, entity: Entity) -> Scope | None:
        """The inside of an entity, None for a package without a file."""
        file = self._files.get(entity.path)
        return file.scopes[entity.scope] if file else None

    def resolve(self, path: str, scope: int, chain: Chain, depth: int = 0) -> Found:
        """What a chain leads to from a scope of a file."""
        key = (path, scope, chain)
        if key not in self._reached:
            if depth > _DEEPEST:
                return None
            self._reached[key] = None  # what depends on itself cannot be told
            self._reached[key] = self._resolve(path, scope, chain, depth + 1)
        return self._reached[key]

    def member(self, owner: Found, name: str, depth: int = 0) -> Found:
        """What a name means after `owner.`; `CALL` and `ENTER` are such names as well."""
        if isinstance(owner, Foreign):
            return None if name == ENTER else FOREIGN
        if owner is None or depth > _DEEPEST:
            return None
        scope = self.scope(owner)
        if scope is None:
            return self._module(self._modules.submodule(owner.path, name))
        kind = scope.definition.kind
        if name == CALL:
            return self._result(owner, scope, depth)
        if kind in ("function", "method"):
            return (
                self.member(self._result(owner, scope, depth), name, depth + 1)
                if scope.is_property
                else None
            )
        if kind == "module":
            return self._module_member(owner, name, depth)
        if name == ENTER:
            return owner
        return self._class_member(owner, name, depth)

    def ancestors(self, entity: Entity) -> tuple[Entity, ...]:
        """The base classes of a class that are in the repository, and theirs, nearest first."""
        entity = replace(entity, is_instance=False)
        if entity not in self._ancestors:
            self._ancestors[entity] = ()  # a class that is its own base has no more
            found = list(self._bases(entity))
            for base in list(found):
                found += (above for above in self.ancestors(base) if above not in found)
            self._ancestors[entity] = tuple(found)
        return self._ancestors[entity]

    def _bases(self, entity: Entity) -> Iterator[Entity]:
        scope = self.scope(entity)
        for base in scope.bases if scope else ():
            found = self.resolve(entity.path, scope.parent, base) if scope else None
            if isinstance(found, Entity) and found != entity:
                yield found

    def _resolve(self, path: str, scope: int, chain: Chain, depth: int) -> Found:
        *before, name = chain
        if before:
            if before == ["super", CALL]:
                return self._above(path, scope, name, depth)
            return self.member(self.resolve(path, scope, tuple(before), depth), name, depth)
        if name == ANYTHING:
            return None
        if name == LITERAL:
            return FOREIGN
        return self._look_up(path, scope, name, depth)

    def _look_up(self, path: str, scope: int, name: str, depth: int) -> Found:
        file = self._files[path]
        for index in enclosing(file.scopes, scope):
            if bindings := file.scopes[index].bindings.get(name):
                return self._bound(path, bindings, depth)
        if (found := self._starred(path, name, depth)) is not None:
            return found
        return FOREIGN if hasattr(builtins, name) else None

    def _starred(self, path: str, name: str, depth: int) -> Found:
        if name.startswith("_"):
            return None
        for star in self._files[path].stars:
            module = self._modules.imported(star.module, star.level, path)
            if module is not None:
                found = self.member(Entity(module), name, depth + 1)
                if found is not None:
                    return found
        return None

    def _bound(self, path: str, bindings: Iterable[Binding], depth: int) -> Found:
        """What all the bindings of a name agree on. A definition or import that is in the
        repository wins over others, which are for another platform or version."""
        found: list[Found] = []
        for binding in bindings:
            match binding:
                case Defined(scope):
                    return Entity(path, scope)
                case Receiver(scope, is_instance):
                    found.append(Entity(path, scope, is_instance))
                case Imported():
                    imported = self._imported(path, binding, depth)
                    if isinstance(imported, Entity):
                        return imported
                    found.append(imported)
                case Assigned(chain, scope):
                    found.append(self.resolve(path, scope, chain, depth))
                case Unknown():
                    found.append(None)
        return found[0] if len(set(found)) == 1 else None

    def _imported(self, path: str, binding: Imported, depth: int) -> Found:
        module = self._modules.imported(binding.module, binding.level, path)
        if module is None:
            return FOREIGN
        if binding.name is None:
            return self._module(module)
        return self.member(Entity(module), binding.name, depth + 1)

    def _module(self, path: str | None) -> Found:
        return None if path is None else Entity(path)

    def _module_member(self, module: Entity, name: str, depth: int) -> Found:
        bindings = self._files[module.path].scopes[0].bindings.get(name)
        if bindings:
            found = self._bound(module.path, bindings, depth + 1)
            if found is not None:
                return found
        if (found := self._module(self._modules.submodule(module.path, name))) is not None:
            return found
        return self._starred(module.path, name, depth + 1)

    def _class_member(self, owner: Entity, name: str, depth: int) -> Found:
        for place in (replace(owner, is_instance=False), *self.ancestors(owner)):
            scope = self.scope(place)
            if scope and (bindings := scope.bindings.get(name)):
                return self._bound(place.path, bindings, depth + 1)
        return None

    def _above(self, path: str, scope: int, name: str, depth: int) -> Found:
        """What `super().name` means."""
        scopes = self._files[path].scopes
        while scope and scopes[scope].definition.kind != "class":
            scope = scopes[scope].parent
        for base in self.ancestors(Entity(path, scope)) if scope else ():
            found = self._class_member(replace(base, is_instance=True), name, depth)
            if found is not None:
                return found
        return None

    def _result(self, owner: Entity, scope: Scope, depth: int) -> Found:
        """What calling an entity returns."""
        if scope.definition.kind == "class":
            return None if owner.is_instance else replace(owner, is_instance=True)
        if scope.returns is None:
            return None
        if scope.returns == ("Self", CALL):
            return Entity(owner.path, scope.parent, is_instance=True)
        return self.resolve(owner.path, scope.parent, scope.returns, depth)
