"""Follow a chain of names at a location to its definition, across files.

Only scopes, imports, base classes, annotations and assignments are used. The results of functions
are unknown.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent.index.chains import CALL, LITERAL, RECEIVERS, Chain
from agent.index.files import SourceFiles
from agent.index.modules import Modules, family_of
from agent.index.syntax import Import, join

_MOST_STEPS = 100
"""Names that are followed for one chain before the search ends without a result.

Imports and base classes can be cyclic. Real code needs 30, and each takes several frames of the
interpreter's stack.
"""

_PROPERTY = re.compile(r"@(?:\w+\.)*(?:cached_)?property\b")
_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")


class Entity(NamedTuple):
    """A module, class, function or variable of the repository, or an object of such a class."""

    path: str
    """For a package without a file: its folder, with a `/` at the end."""
    qualified: str = ""


FOREIGN = Entity("", "foreign")
"""An object of another distribution, the standard library or the language."""


class Resolver:
    """Resolves names in one state of the repository, and caches the results.

    A result is None if the text does not determine it.
    """

    def __init__(self, files: SourceFiles, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._results: dict[tuple[str, str, Chain], Entity | None] = {}
        self._steps_left = 0

    def resolve(self, path: str, scope: str, chain: Chain) -> Entity | None:
        """Return the object that a chain leads to from a scope of a file."""
        question = (path, scope, chain)
        if question not in self._results:
            self._steps_left = _MOST_STEPS
            self._results[question] = self._follow(path, scope, chain)
        return self._results[question]

    def find_member(self, owner: Entity | None, name: str) -> Entity | None:
        """Return the object that a name refers to after `owner.`."""
        self._steps_left = _MOST_STEPS
        return self._member(owner, name)

    def find_module(self, path: str, statement: Import) -> Entity | None:
        """Return the module of an import statement."""
        self._steps_left = _MOST_STEPS
        return self._module(path, statement.module)

    def find_ancestors(self, entity: Entity) -> list[Entity]:
        """Return the base classes of a class in the repository, and theirs, nearest first."""
        self._steps_left = _MOST_STEPS
        return self._ancestors(entity)

    def is_property(self, entity: Entity) -> bool:
        """Return True if reading an attribute calls this method."""
        definitions = self._files.find(entity.path, entity.qualified)
        return any(_PROPERTY.match(definition.signature) for definition in definitions)

    def _follow(self, path: str, scope: str, chain: Chain) -> Entity | None:
        entity, rest = self._look_up(path, scope, chain[0]), chain[1:]
        if chain[0] == "super" and (owner := self._class_around(path, scope)):
            rest = rest[1:] if rest[:1] == (CALL,) else rest
            entity = self._member_of_any(self._ancestors(owner), rest[0]) if rest else None
            rest = rest[1:]
        for name in rest:
            entity = self._member(entity, name)
        return entity

    def _look_up(self, path: str, scope: str, name: str) -> Entity | None:
        """Return the object of a name, in its scope or those around it.

        The names of a class are visible directly in its body, and in its methods only in Java.
        """
        if name == LITERAL:
            return FOREIGN
        if name in RECEIVERS and (owner := self._class_around(path, scope)):
            return owner
        kinds, place = self._files.kinds(path), scope
        while place:
            is_visible = place == scope or kinds.get(place) != "class" or path.endswith(".java")
            if is_visible and self._has(path, join(place, name)):
                return Entity(path, join(place, name))
            place = place.rpartition(".")[0]
        entity = self._in_module(path, name)
        if entity is None and family_of(path) == "rust":
            module = self._modules.find_imported(name, path)
            entity = Entity(module) if module else None
        return FOREIGN if entity is None and name[:1].isupper() else entity

    def _class_around(self, path: str, scope: str) -> Entity | None:
        kinds = self._files.kinds(path)
        while scope and kinds.get(scope) != "class":
            scope = scope.rpartition(".")[0]
            if scope and scope not in kinds and path.endswith(".go"):
                return None
        return Entity(path, scope) if scope else None

    def _in_module(self, path: str, name: str) -> Entity | None:
        """Return the object of a name at the top of a module, with its package and its imports."""
        self._steps_left -= 1
        if self._steps_left < 0:
            return None
        places = [file for file in self._modules.peers(path) if name in self._files.kinds(file)]
        for file in places:
            if self._files.kinds(file)[name] != "variable":
                return Entity(file, name)
        statements = self._files.imports(path, name)  # they bind some variables, too
        entities = [self._resolve_import(path, statement) for statement in statements]
        if entities:
            return next((entity for entity in entities if entity != FOREIGN), FOREIGN)
        return Entity(places[0], name) if places else self._by_star(path, name)

    def _resolve_import(self, path: str, statement: Import) -> Entity | None:
        if statement.name is None:
            is_whole = statement.alias or family_of(path) != "python"
            module = statement.module if is_whole else statement.module.partition(".")[0]
            return self._module(path, module)
        is_own = statement.module == "." and path.endswith(_SCRIPTS)
        owner = Entity(path) if is_own else self._module(path, statement.module)
        return self._member(owner, statement.name)

    def _module(self, path: str, module: str) -> Entity | None:
        if (file := self._modules.find_imported(module, path)) is not None:
            return Entity(file)
        separator = {"rust": "::", "java": "."}.get(family_of(path))
        before, _, last = module.rpartition(separator) if separator else ("", "", "")
        self._steps_left -= 1
        if not before or self._steps_left < 0:
            return FOREIGN
        return self._member(self._module(path, before), last)

    def _by_star(self, path: str, name: str) -> Entity | None:
        """Return the object bound to a name by an import of all names, in any module it reaches."""
        visited, waiting = {path}, [] if name.startswith("_") else [path]
        while waiting:
            importer = waiting.pop()
            for star in reversed(self._files.imports(importer, "*")):
                module = self._module(importer, star.module)
                if module is None or module == FOREIGN or module.path in visited:
                    continue
                visited.add(module.path)
                for file in self._files_of(module.path):
                    if (full := join(module.qualified, name)) in self._files.kinds(file):
                        return Entity(file, full)
                    if imports := self._files.imports(file, name):
                        return self._resolve_import(file, imports[0])
                    waiting.append(file)
        return None

    def _files_of(self, module: str) -> list[str]:
        return [] if module.endswith("/") else self._modules.peers(module)

    def _member(self, owner: Entity | None, name: str) -> Entity | None:
        self._steps_left -= 1
        owner = self._dereference(owner)
        if owner is None or self._steps_left < 0:
            return None
        if owner == FOREIGN:
            return FOREIGN
        if not owner.qualified:
            submodule = self._modules.submodule(owner.path, name)
            if submodule and owner.path.endswith(".rs"):
                return Entity(submodule)
            entities = [self._in_module(file, name) for file in self._files_of(owner.path)]
            entity = next((entity for entity in entities if entity is not None), None)
            return Entity(submodule) if submodule and entity in (None, FOREIGN) else entity
        if self._files.kinds(owner.path).get(owner.qualified) not in ("class", "module"):
            return None
        if name == CALL:
            return owner
        return self._member_of_any([owner, *self._ancestors(owner)], name)

    def _dereference(self, entity: Entity | None) -> Entity | None:
        """Return the object that is the value of a variable, or the entity if it is not one."""
        if entity is None or entity == FOREIGN or not entity.qualified:
            return entity
        path, qualified = entity
        if self._files.kinds(path).get(qualified, "variable") != "variable":
            return entity
        self._steps_left -= 1
        values = self._files.variables(path).get(qualified, ()) if self._steps_left > 0 else ()
        objects = {self._dereference(self._follow(path, *value)) for value in values}
        return objects.pop() if len(objects) == 1 else None

    def _member_of_any(self, classes: list[Entity], name: str) -> Entity | None:
        for owner in classes:
            for file in self._modules.peers(owner.path):
                if self._has(file, join(owner.qualified, name)):
                    return Entity(file, join(owner.qualified, name))
        return None

    def _has(self, path: str, full: str) -> bool:
        return full in self._files.kinds(path) or full in self._files.variables(path)

    def _ancestors(self, entity: Entity) -> list[Entity]:
        ancestors = [entity]
        for place in ancestors:  # which grows meanwhile
            for base in self._bases(place):
                if base not in ancestors:
                    ancestors.append(base)
        return ancestors[1:]

    def _bases(self, entity: Entity) -> Iterator[Entity]:
        scope = entity.qualified.rpartition(".")[0]
        for file in self._modules.peers(entity.path):
            for chain in self._files.syntax(file).bases.get(entity.qualified, ()):
                self._steps_left -= 1
                base = self._follow(file, scope, chain) if self._steps_left > 0 else None
                if base is not None and base != FOREIGN:
                    yield base
