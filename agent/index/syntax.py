"""The syntax of one Python file: definitions, bindings of names, and references.

No other file is read, so the result depends only on the text and is cached by it.
`agent.index.symbols` combines the files.
"""

import ast
import builtins
import copy
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, NamedTuple

from agent.index.chains import ANYTHING, CALL, ENTER, LITERAL, Chain, annotated, chain, is_none
from agent.index.imports import CACHED_FILES, Imported
from agent.index.sources import lines

Kind = Literal["module", "class", "function", "method", "variable"]

_SIGNATURE_CHARS = 300
_LINE_BITS = 32
_LINE = 2**_LINE_BITS - 1
_CALL = 1 << _LINE_BITS
_BUILTINS = frozenset(dir(builtins))
_PROPERTIES = {"property", "cached_property", "setter", "getter", "deleter"}
_Load = ast.Load
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Defined(NamedTuple):
    """The name is a class or function of the file."""

    scope: int


class Assigned(NamedTuple):
    """The name has the value of an expression, as seen from a scope."""

    chain: Chain
    scope: int


class Receiver(NamedTuple):
    """The name is `self` or `cls` of a class."""

    scope: int
    is_instance: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """The name has an unknown value."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The name is None until it is bound to something else."""


UNKNOWN, EMPTY = Unknown(), Empty()
ONLY_UNKNOWN = (UNKNOWN,)
"""Shared by most names."""

Binding = Defined | Imported | Assigned | Receiver | Unknown | Empty


class DefinitionSyntax(NamedTuple):
    """A definition and its location. Lines are 1-based and inclusive."""

    qualified: str
    """Name within the file, without `<locals>`: `Reader.load.helper`; empty for the module."""
    kind: Kind
    start: int
    """First line, including decorators."""
    line: int
    end: int
    signature: str
    """The header in one line: decorators without arguments, then the text before the colon."""
    doc: str
    """The first line of the docstring."""


class Scope(NamedTuple):
    """The inside of a module, class or function."""

    definition: DefinitionSyntax
    parent: int
    bindings: Mapping[str, Sequence[Binding]]
    bases: tuple[Chain, ...] = ()
    returns: Chain | None = None
    """The annotated type of a function's result."""
    is_property: bool = False


class Reference(NamedTuple):
    """The locations in a scope at which a chain is evaluated."""

    chain: Chain
    scope: int
    is_call: bool
    lines: list[int]
    """Each line once, in order."""


@dataclass(frozen=True, slots=True)
class FileSyntax:
    """One file that parses. Scope 0 is the module."""

    scopes: tuple[Scope, ...]
    definitions: tuple[DefinitionSyntax, ...]
    """Definitions by line, including variables of modules and classes."""
    locations: dict[Chain, Sequence[int]]
    """Locations by chain, as sorted numbers: the scope, one bit for a call, then the line.

    References are most of a file's syntax, and this takes a fifth of the memory of objects.
    """
    stars: tuple[Imported, ...]
    """`from module import *`."""

    def references(self, names: Collection[str] | None = None) -> Iterator[Reference]:
        """Yield the references whose chain ends in one of the names, or all, sorted."""
        wanted = [each for each in self.locations if names is None or each[-1] in names]
        for reached in sorted(wanted):
            found = self.locations[reached]
            for place, at in groupby(found, key=lambda location: location >> _LINE_BITS):
                lines = [location & _LINE for location in at]
                yield Reference(reached, place >> 1, bool(place & 1), lines)

    def counts(self) -> Iterator[tuple[Chain, int, bool, int]]:
        """Yield the chain, scope, kind (True for a call) and number of lines of all references.

        They are in no order, since this is for the millions of references of a repository.
        """
        for reached, locations in self.locations.items():
            if len(locations) == 1:
                place = locations[0] >> _LINE_BITS
                yield reached, place >> 1, bool(place & 1), 1
                continue
            places: dict[int, int] = {}
            for location in locations:
                place = location >> _LINE_BITS
                places[place] = places.get(place, 0) + 1
            for place, count in places.items():
                yield reached, place >> 1, bool(place & 1), count


@lru_cache(maxsize=CACHED_FILES)
def parse(text: str) -> FileSyntax | str:
    """Return the syntax of a file, or in one line the reason why this Python cannot parse it."""
    source = text.removeprefix("\ufeff")
    try:
        return _Builder(source).build(ast.parse(source))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else error.msg
    except (ValueError, RecursionError, MemoryError) as error:  # zero bytes; nested too deeply
        return str(error) or type(error).__name__


def enclosing(scopes: Sequence[Scope], scope: int) -> Iterator[int]:
    """Yield the scopes in which a name is looked up, from the inside out.

    The names of a class are visible directly in its body and not in its methods.
    """
    yield scope
    while scope:
        scope = scopes[scope].parent
        if scopes[scope].definition.kind != "class":
            yield scope


class _Builder:
    """Walks one tree. It visits millions of nodes, so its methods are written for speed."""

    def __init__(self, source: str) -> None:
        self._lines = lines(source)
        self._scopes: list[Scope] = []
        self._definitions: list[DefinitionSyntax] = []
        self._bindings: list[dict[str, list[Binding]]] = []
        self._locations: defaultdict[Chain, list[int]] = defaultdict(list)
        self._names: list[defaultdict[str, list[int]]] = []
        """Locations of single names by scope. Most of them lead nowhere."""
        self._stars: list[Imported] = []
        self._globals: dict[int, set[str]] = {}
        # State of the current scope:
        self._current = 0
        self._here: defaultdict[str, list[int]] = defaultdict(list)
        self._first_location = 0

    def build(self, tree: ast.Module) -> FileSyntax:
        module = DefinitionSyntax("", "module", 1, 1, max(1, len(self._lines)), "", _doc(tree))
        self._enter(Scope(module, 0, {}), {}, tree.body)
        self._keep_leading_names()
        for scope, bindings in enumerate(self._bindings):
            compact = {name: _compact(found) for name, found in bindings.items()}
            self._scopes[scope] = self._scopes[scope]._replace(bindings=compact)
        return FileSyntax(
            scopes=tuple(self._scopes),
            definitions=tuple(sorted(self._definitions, key=lambda found: found.line)),
            locations={
                reached: array("Q", sorted(set(found)) if len(found) > 1 else found)
                for reached, found in self._locations.items()
            },
            stars=tuple(self._stars),
        )

    def _keep_leading_names(self) -> None:
        """Add the single names that may lead to a definition to the locations."""
        for scope, names in enumerate(self._names):
            around = list(enclosing(self._scopes, scope))
            for name, found in names.items():
                if self._may_lead(name, around):
                    self._locations[name,] += found

    def _may_lead(self, name: str, around: Sequence[int]) -> bool:
        """Return False for a single name that refers to no definition, such as a parameter.

        `around` are the scopes in which it is looked up.
        """
        for scope in around:
            if found := self._bindings[scope].get(name):
                if found[0].__class__ in _LEADING or not self._is_function(scope):
                    return True
                return any(binding.__class__ in _LEADING for binding in found)
        return name not in _BUILTINS

    # Scopes and the bindings of their names

    def _enter(
        self, scope: Scope, bindings: dict[str, list[Binding]], body: Iterable[ast.AST]
    ) -> None:
        outer, here = self._current, self._here
        self._definitions.append(scope.definition)
        self._scopes.append(scope)
        self._bindings.append(bindings)
        self._here = defaultdict(list)
        self._names.append(self._here)
        self._go_to(len(self._scopes) - 1)
        self._visit_all(body)
        self._here = here
        self._go_to(outer)

    def _go_to(self, scope: int) -> None:
        self._current = scope
        self._first_location = scope << 1 << _LINE_BITS

    def _bind(self, name: str, binding: Binding) -> None:
        scope = 0 if name in self._globals.get(self._current, ()) else self._current
        self._bindings[scope].setdefault(name, []).append(binding)

    def _bind_local(self, name: str) -> None:
        """Bind a name that exists for only a part of the scope, if it can hide a definition."""
        if self._is_function(self._current):
            self._bind(name, UNKNOWN)

    def _is_function(self, scope: int) -> bool:
        return self._scopes[scope].definition.kind in ("function", "method")

    def _value(self, node: ast.expr | None) -> Binding:
        if node is None or is_none(node):
            return EMPTY
        found = chain(node)
        return UNKNOWN if found[0] == ANYTHING else Assigned(found, self._current)

    def _declared(self, annotation: ast.expr | None) -> Binding:
        found = annotated(annotation) if annotation else None
        return UNKNOWN if found is None else Assigned(found, self._current)

    def _assign(self, target: ast.expr, binding: Binding, statement: ast.stmt) -> None:
        match target:
            case ast.Name(id=name):
                self._bind(name, binding)
                if not self._is_function(self._current):
                    self._define_variable(name, statement)
            case ast.Attribute(value=ast.Name(id=receiver), attr=name):
                self._bind_attribute(receiver, name, binding)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for part in targets:
                    self._assign(part, UNKNOWN, statement)
            case ast.Starred(value=part):
                self._assign(part, UNKNOWN, statement)
            case _:
                self._visit(target)

    def _bind_attribute(self, receiver: str, name: str, binding: Binding) -> None:
        """Bind `name` in the class for `self.name = ...` in a method."""
        for found in self._bindings[self._current].get(receiver, ()):
            if isinstance(found, Receiver):
                self._bindings[found.scope].setdefault(name, []).append(binding)

    def _define_variable(self, name: str, statement: ast.stmt) -> None:
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        signature = self._lines[first - 1].strip()[:_SIGNATURE_CHARS]
        qualified = self._qualified(name)
        self._definitions.append(
            DefinitionSyntax(qualified, "variable", first, first, last, signature, "")
        )

    def _qualified(self, name: str) -> str:
        outer = self._scopes[self._current].definition.qualified
        return f"{outer}.{name}" if outer else name

    # The walk

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        _VISITS[node.__class__](self, node)

    def _inside(self, node: ast.AST) -> None:
        """Visit the parts of a node. `ast.iter_child_nodes` takes several times as long."""
        for field in _PARTS[node.__class__]:
            part = getattr(node, field)
            if part.__class__ is list:
                for each in part:
                    _VISITS[each.__class__](self, each)
            elif part is not None:
                _VISITS[part.__class__](self, part)

    def _function(self, node: _Function) -> None:
        self._decorators(node.decorator_list)
        arguments = node.args
        self._visit_all([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        parameters = _parameters(arguments)
        self._visit_all(filter(None, [node.returns, *(p.annotation for p in parameters)]))
        decorators = {_last_name(decorator) for decorator in node.decorator_list}
        in_class = self._scopes[self._current].definition.kind == "class"
        bindings: dict[str, list[Binding]] = {
            parameter.arg: [self._declared(parameter.annotation)] for parameter in parameters
        }
        bindings |= {rest.arg: [Assigned((LITERAL,), self._current)] for rest in _rest(arguments)}
        positional = [*arguments.posonlyargs, *arguments.args]
        if in_class and positional and "staticmethod" not in decorators:
            of_class = "classmethod" in decorators or node.name in _CLASS_METHODS
            bindings[positional[0].arg] = [Receiver(self._current, not of_class)]
        scope = Scope(
            self._definition(node, "method" if in_class else "function"),
            parent=self._current,
            bindings={},
            returns=annotated(node.returns),
            is_property=not decorators.isdisjoint(_PROPERTIES),
        )
        self._bind(node.name, Defined(len(self._scopes)))
        self._enter(scope, bindings, node.body)

    def _class(self, node: ast.ClassDef) -> None:
        self._decorators(node.decorator_list)
        self._visit_all([*node.bases, *(keyword.value for keyword in node.keywords)])
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
        scope = Scope(
            self._definition(node, "class"),
            parent=self._current,
            bindings={},
            bases=tuple(chain(base) for base in bases),
        )
        self._bind(node.name, Defined(len(self._scopes)))
        self._enter(scope, {}, node.body)

    def _decorators(self, decorators: list[ast.expr]) -> None:
        """Record that `@name` calls the named function."""
        for decorator in decorators:
            self._visit_called(decorator)

    def _definition(self, node: _Function | ast.ClassDef, kind: Kind) -> DefinitionSyntax:
        start = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
        end = node.end_lineno or node.lineno
        signature = self._signature(node)[:_SIGNATURE_CHARS]
        return DefinitionSyntax(
            self._qualified(node.name), kind, start, node.lineno, end, signature, _doc(node)
        )

    def _signature(self, node: _Function | ast.ClassDef) -> str:
        plain = [d for d in node.decorator_list if isinstance(d, ast.Name | ast.Attribute)]
        marks = "".join(f"@{ast.unparse(decorator)} " for decorator in plain)
        line = self._lines[node.lineno - 1].strip()
        if line.endswith(":") and line.count("(") == line.count(")"):
            return marks + line[:-1]
        bare = copy.copy(node)
        bare.body, bare.decorator_list = [], []
        return marks + ast.unparse(bare).removesuffix(":")

    def _lambda(self, node: ast.Lambda) -> None:
        self._visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults)])
        for parameter in _parameters(node.args):
            self._bind_local(parameter.arg)
        self._visit(node.body)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name if alias.asname else alias.name.partition(".")[0]
            self._bind(alias.asname or module, Imported(module, 0, None))

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            imported = Imported(node.module or "", node.level, alias.name)
            if alias.name == "*":
                self._stars.append(imported)
            else:
                self._bind(alias.asname or alias.name, imported)

    def _global(self, node: ast.Global) -> None:
        self._globals.setdefault(self._current, set()).update(node.names)

    def _assignment(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            for part, value in _pairs(target, node.value):
                self._assign(part, self._value(value), node)

    def _annotated_assignment(self, node: ast.AnnAssign) -> None:
        self._visit_all(filter(None, [node.annotation, node.value]))
        self._assign(node.target, self._declared(node.annotation), node)

    def _walrus(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        self._bind(node.target.id, self._value(node.value))

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        self._targets(node.target)
        self._visit_all([*node.body, *node.orelse])

    def _comprehension(self, node: ast.comprehension) -> None:
        self._visit(node.iter)
        self._targets(node.target)
        self._visit_all(node.ifs)

    def _targets(self, target: ast.expr) -> None:
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                self._bind_local(part.id)

    def _with_item(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if isinstance(node.optional_vars, ast.Name):
            value = self._value(node.context_expr)
            if isinstance(value, Assigned):
                value = Assigned((*value.chain, ENTER), value.scope)
            self._bind(node.optional_vars.id, value)
        elif node.optional_vars is not None:
            self._targets(node.optional_vars)

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind_local(node.name)
        self._inside(node)

    def _pattern(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind_local(node.name)
        self._inside(node)

    def _leaf(self, node: ast.AST) -> None:
        """Do nothing, because the node has no children of interest."""

    def _operation(self, node: ast.BinOp) -> None:
        _VISITS[node.left.__class__](self, node.left)
        _VISITS[node.right.__class__](self, node.right)

    def _elements(self, node: ast.Tuple | ast.List) -> None:
        for element in node.elts:
            _VISITS[element.__class__](self, element)

    def _call(self, node: ast.Call) -> None:
        self._visit_called(node.func)
        for argument in node.args:
            _VISITS[argument.__class__](self, argument)
        for keyword in node.keywords:
            _VISITS[keyword.value.__class__](self, keyword.value)

    def _visit_called(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            self._here[node.id].append(self._first_location + _CALL + node.lineno)
        elif isinstance(node, ast.Attribute):
            self._reach(node, _CALL)
        else:
            self._visit(node)

    def _name(self, node: ast.Name) -> None:
        if node.ctx.__class__ is _Load:
            self._here[node.id].append(self._first_location + node.lineno)

    def _attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self._reach(node, 0)
        else:
            self._visit(node.value)

    def _reach(self, node: ast.Attribute, call: int) -> None:
        reached = chain(node)
        if reached[0] == ANYTHING:
            reached = (ANYTHING, reached[-1])
        if reached[0] != LITERAL:
            line = node.end_lineno or node.lineno  # the line of the last name of a long chain
            self._locations[reached].append(self._first_location + call + line)
        value = node.value
        _VISITS[value.__class__](self, value)


def _compact(bindings: list[Binding]) -> Sequence[Binding]:
    return ONLY_UNKNOWN if bindings == [UNKNOWN] else tuple(bindings)


_LEADING = frozenset({Defined, Imported, Assigned, Receiver})
_CLASS_METHODS = {"__new__", "__init_subclass__", "__class_getitem__"}

_VISITS: defaultdict[type[ast.AST], Callable[[_Builder, Any], None]] = defaultdict(
    lambda: _Builder._inside
)
_VISITS |= {
    ast.FunctionDef: _Builder._function,
    ast.AsyncFunctionDef: _Builder._function,
    ast.ClassDef: _Builder._class,
    ast.Lambda: _Builder._lambda,
    ast.Import: _Builder._import,
    ast.ImportFrom: _Builder._import_from,
    ast.Global: _Builder._global,
    ast.Assign: _Builder._assignment,
    ast.AnnAssign: _Builder._annotated_assignment,
    ast.NamedExpr: _Builder._walrus,
    ast.For: _Builder._loop,
    ast.AsyncFor: _Builder._loop,
    ast.comprehension: _Builder._comprehension,
    ast.withitem: _Builder._with_item,
    ast.ExceptHandler: _Builder._handler,
    ast.MatchAs: _Builder._pattern,
    ast.MatchStar: _Builder._pattern,
    ast.BinOp: _Builder._operation,
    ast.Tuple: _Builder._elements,
    ast.List: _Builder._elements,
    ast.Call: _Builder._call,
    ast.Constant: _Builder._leaf,
    ast.Name: _Builder._name,
    ast.Attribute: _Builder._attribute,
}


class _Parts(dict[type, tuple[str, ...]]):
    """The fields of each type of node that can hold nodes of interest."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        fields: tuple[str, ...] = getattr(kind, "_fields", ())
        self[kind] = tuple(field for field in fields if field not in _PLAIN_FIELDS)
        return self[kind]


_PLAIN_FIELDS = ("ctx", "op", "ops", "arg", "attr", "kind", "conversion", "type_comment")
_PARTS = _Parts()


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *_rest(arguments)]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Split `a, b = x, y` into two assignments."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        targets, values = target.elts, value.elts
        is_starred = any(isinstance(part, ast.Starred) for part in (*targets, *values))
        if len(targets) == len(values) and not is_starred:
            return list(zip(targets, values, strict=True))
    return [(target, value)]


def _rest(arguments: ast.arguments) -> list[ast.arg]:
    """Return `*args` and `**kwargs`, whose annotation is that of one element."""
    return [argument for argument in (arguments.vararg, arguments.kwarg) if argument]


def _last_name(node: ast.expr) -> str:
    names = [name for name in chain(node) if name != CALL]
    return names[-1]


def _doc(node: _Function | ast.ClassDef | ast.Module) -> str:
    """Return the first line of the docstring as `ast.get_docstring` shows it, in less time."""
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str(text))), *_]:
            first = len(text) - len(text.lstrip())
            start = text.rfind("\n", 0, first) + 1
            return text[start:].partition("\n")[0].expandtabs().strip()
    return ""
