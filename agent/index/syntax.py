"""The syntax of one Python file: definitions, bindings of names, and references.

No other file is read, so the result depends only on the text and is cached by it.
`agent.index.symbols` combines the files.

An expression that may lead to a definition is written as a *chain*, the path from its first name:
`self.reader.load(path).close` is `("self", "reader", "load", "()", "close")`.
"""

import ast
import builtins
import copy
import gc
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from agent.index.sources import lines

Kind = Literal["module", "class", "function", "method", "variable"]

Chain = tuple[str, ...]

CALL = "()"
"""In a chain: the result of calling the part before."""
ENTER = "with"
"""In a chain: the value that a `with` statement binds for the part before."""
ANYTHING = "?"
"""First in a chain: an expression of unknown value."""
LITERAL = "literal"
"""First in a chain: a value of a type that is built into Python."""

_CACHED_FILES = 8192
_SIGNATURE_CHARS = 300
_BUILTINS = frozenset(dir(builtins))
_TRANSPARENT = {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"}
_PROPERTIES = {"property", "cached_property", "setter", "getter", "deleter"}
_LITERALS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Compare,
)  # fmt: skip

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Defined:
    """The name is a class or function of the file."""

    scope: int


@dataclass(frozen=True, slots=True)
class Imported:
    """The name is a module, or, if `name` is set, a name of a module."""

    module: str
    level: int
    """Number of dots before the module's name."""
    name: str | None


@dataclass(frozen=True, slots=True)
class Assigned:
    """The name has the value of an expression, as seen from a scope."""

    chain: Chain
    scope: int


@dataclass(frozen=True, slots=True)
class Receiver:
    """The name is `self` or `cls` of a class."""

    scope: int
    is_instance: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """The name has an unknown value."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The name is None until it is bound to something else."""


Binding = Defined | Imported | Assigned | Receiver | Unknown | Empty


@dataclass(frozen=True, slots=True)
class DefinitionSyntax:
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


@dataclass(frozen=True, slots=True)
class Scope:
    """The inside of a module, class or function."""

    definition: DefinitionSyntax
    parent: int
    bindings: dict[str, list[Binding]]
    bases: tuple[Chain, ...] = ()
    returns: Chain | None = None
    """The annotated type of a function's result."""
    is_property: bool = False


class Reference(NamedTuple):
    """A location at which a chain is evaluated. A tuple, because its speed matters for so many."""

    line: int
    chain: Chain
    scope: int
    is_call: bool


@dataclass(frozen=True, slots=True)
class FileSyntax:
    """One file that parses. Scope 0 is the module."""

    scopes: tuple[Scope, ...]
    definitions: tuple[DefinitionSyntax, ...]
    """Definitions by line, including variables of modules and classes."""
    references: dict[str, tuple[Reference, ...]]
    """References by the last name of the chain, in the order of their lines."""
    imports: tuple[Imported, ...]
    """Every import at any location, including those of `*`."""
    stars: tuple[Imported, ...]
    """`from module import *`."""


@lru_cache(maxsize=_CACHED_FILES)
def parse(text: str) -> FileSyntax | str:
    """Return the syntax of a file, or in one line the reason why this Python cannot parse it."""
    source = text.removeprefix("\ufeff")
    try:
        with _undisturbed():
            return _Builder(source).build(ast.parse(source))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else error.msg
    except (ValueError, RecursionError, MemoryError) as error:  # zero bytes; nested too deeply
        return str(error) or type(error).__name__


_one_at_a_time = threading.Lock()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Suppress warnings and garbage collection while parsing.

    The warnings are about other people's code. Garbage collection takes longer than parsing and
    finds nothing, because trees have no cycles. Both are settings of the whole process, so only one
    thread may change them at a time.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def chain(node: ast.expr) -> Chain:
    """Return the chain of an expression. It starts with `ANYTHING` if the expression is unknown."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=name):
            return (*chain(value), name)
        case ast.Call(func=function):
            return (*chain(function), CALL)
        case ast.Await(value=value) | ast.NamedExpr(value=value):
            return chain(value)
        case _:
            return (LITERAL,) if isinstance(node, _LITERALS) else (ANYTHING,)


def annotated(node: ast.expr | None) -> Chain | None:
    """Return the chain of a value with that annotation, or None if it names no single class."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return annotated(_expression(text))
            except (SyntaxError, ValueError):
                return None
        case ast.Name() | ast.Attribute():
            return (*chain(node), CALL)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            some = [side for side in (left, right) if not _is_none(side)]
            return annotated(some[0]) if len(some) == 1 else None
        case ast.Subscript(value=value, slice=inner):
            generic = chain(value)
            if generic[-1] in ("type", "Type"):
                return chain(inner)
            if generic[-1] == "Union":
                return None
            if generic[-1] in _TRANSPARENT:
                return annotated(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
            return (*generic, CALL)
        case _:
            return None


def _expression(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


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
    """Walks one tree."""

    def __init__(self, source: str) -> None:
        self._lines = lines(source)
        self._scopes: list[Scope] = []
        self._definitions: list[DefinitionSyntax] = []
        self._references: set[Reference] = set()
        self._imports: list[Imported] = []
        self._globals: dict[int, set[str]] = {}
        self._called: set[ast.expr] = set()
        self._current = 0

    def build(self, tree: ast.Module) -> FileSyntax:
        module = DefinitionSyntax("", "module", 1, 1, max(1, len(self._lines)), "", _doc(tree))
        self._enter(Scope(module, 0, {}), tree.body)
        return FileSyntax(
            scopes=tuple(self._scopes),
            definitions=tuple(sorted(self._definitions, key=lambda found: found.line)),
            references=self._by_name(),
            imports=tuple(self._imports),
            stars=tuple(found for found in self._imports if found.name == "*"),
        )

    def _by_name(self) -> dict[str, tuple[Reference, ...]]:
        found: dict[str, list[Reference]] = {}
        for reference in sorted(self._references):
            if not self._leads_nowhere(reference):
                found.setdefault(reference.chain[-1], []).append(reference)
        return {name: tuple(references) for name, references in found.items()}

    def _leads_nowhere(self, reference: Reference) -> bool:
        """Return True for a single name that refers to no definition, such as a parameter."""
        if len(reference.chain) > 1:
            return False
        name = reference.chain[0]
        for index in enclosing(self._scopes, reference.scope):
            if bindings := self._scopes[index].bindings.get(name):
                leads = any(
                    isinstance(b, Defined | Imported | Assigned | Receiver) for b in bindings
                )
                return not leads and self._is_function(index)
        return name in _BUILTINS

    # Scopes and the bindings of their names

    def _enter(self, scope: Scope, body: Iterable[ast.AST]) -> None:
        self._definitions.append(scope.definition)
        self._scopes.append(scope)
        outer, self._current = self._current, len(self._scopes) - 1
        self._visit_all(body)
        self._current = outer

    def _bind(self, name: str, binding: Binding) -> None:
        scope = 0 if name in self._globals.get(self._current, ()) else self._current
        self._scopes[scope].bindings.setdefault(name, []).append(binding)

    def _bind_local(self, name: str) -> None:
        """Bind a name that exists for only a part of the scope, if it can hide a definition."""
        if self._is_function(self._current):
            self._bind(name, Unknown())

    def _is_function(self, scope: int) -> bool:
        return self._scopes[scope].definition.kind in ("function", "method")

    def _value(self, node: ast.expr | None) -> Binding:
        if node is None or _is_none(node):
            return Empty()
        found = chain(node)
        return Unknown() if found[0] == ANYTHING else Assigned(found, self._current)

    def _declared(self, annotation: ast.expr | None) -> Binding:
        found = annotated(annotation)
        return Unknown() if found is None else Assigned(found, self._current)

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
                    self._assign(part, Unknown(), statement)
            case ast.Starred(value=part):
                self._assign(part, Unknown(), statement)
            case _:
                self._visit(target)

    def _bind_attribute(self, receiver: str, name: str, binding: Binding) -> None:
        """Bind `name` in the class for `self.name = ...` in a method."""
        for found in self._scopes[self._current].bindings.get(receiver, ()):
            if isinstance(found, Receiver):
                self._scopes[found.scope].bindings.setdefault(name, []).append(binding)

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
        visit = _VISITS.get(type(node))
        if visit is None:
            self._visit_all(ast.iter_child_nodes(node))
        else:
            visit(self, node)

    def _function(self, node: _Function) -> None:
        self._decorators(node.decorator_list)
        arguments = node.args
        self._visit_all([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        parameters = _parameters(arguments)
        self._visit_all(filter(None, [node.returns, *(p.annotation for p in parameters)]))
        decorators = {_last_name(decorator) for decorator in node.decorator_list}
        in_class = self._scopes[self._current].definition.kind == "class"
        scope = Scope(
            self._definition(node, "method" if in_class else "function"),
            parent=self._current,
            bindings={p.arg: [self._declared(p.annotation)] for p in parameters}
            | {rest.arg: [Assigned((LITERAL,), self._current)] for rest in _rest(arguments)},
            returns=annotated(node.returns),
            is_property=not decorators.isdisjoint(_PROPERTIES),
        )
        positional = [*arguments.posonlyargs, *arguments.args]
        if in_class and positional and "staticmethod" not in decorators:
            of_class = "classmethod" in decorators or node.name in _CLASS_METHODS
            scope.bindings[positional[0].arg] = [Receiver(self._current, not of_class)]
        self._bind(node.name, Defined(len(self._scopes)))
        self._enter(scope, node.body)

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
        self._enter(scope, node.body)

    def _decorators(self, decorators: list[ast.expr]) -> None:
        """Record that `@name` calls the named function."""
        self._called.update(decorators)
        self._visit_all(decorators)

    def _definition(self, node: _Function | ast.ClassDef, kind: Kind) -> DefinitionSyntax:
        start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
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
            self._imports.append(Imported(alias.name, 0, None))

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            imported = Imported(node.module or "", node.level, alias.name)
            self._imports.append(imported)
            if alias.name != "*":
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
        self._visit_all(ast.iter_child_nodes(node))

    def _pattern(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind_local(node.name)
        self._visit_all(ast.iter_child_nodes(node))

    def _leaf(self, node: ast.AST) -> None:
        """Do nothing, because the node has no children of interest."""

    def _call(self, node: ast.Call) -> None:
        self._called.add(node.func)
        self._visit_all(ast.iter_child_nodes(node))

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(node, (node.id,))

    def _attribute(self, node: ast.Attribute) -> None:
        reached = chain(node)
        if reached[0] != LITERAL and isinstance(node.ctx, ast.Load):
            self._refer(node, reached)
        self._visit(node.value)

    def _refer(self, node: ast.expr, reached: Chain) -> None:
        if reached[0] == ANYTHING:
            reached = (ANYTHING, reached[-1])
        line = node.end_lineno or node.lineno  # the line of the last name of a long chain
        self._references.add(Reference(line, reached, self._current, node in self._called))


_CLASS_METHODS = {"__new__", "__init_subclass__", "__class_getitem__"}

_VISITS: dict[type[ast.AST], Callable[[_Builder, Any], None]] = {
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
    ast.Call: _Builder._call,
    ast.Constant: _Builder._leaf,
    ast.Load: _Builder._leaf,
    ast.Name: _Builder._name,
    ast.Attribute: _Builder._attribute,
}


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *_rest(arguments)]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Split `a, b = x, y` into two assignments."""
    match target, value:
        case (ast.Tuple(elts=targets), ast.Tuple(elts=values)) if len(targets) == len(values):
            if not any(isinstance(part, ast.Starred) for part in (*targets, *values)):
                return list(zip(targets, values, strict=True))
    return [(target, value)]


def _rest(arguments: ast.arguments) -> list[ast.arg]:
    """Return `*args` and `**kwargs`, whose annotation is that of one element."""
    return [argument for argument in (arguments.vararg, arguments.kwarg) if argument]


def _last_name(node: ast.expr) -> str:
    names = [name for name in chain(node) if name != CALL]
    return names[-1]


def _doc(node: _Function | ast.ClassDef | ast.Module) -> str:
    found = (ast.get_docstring(node) or "").strip()
    return found.partition("\n")[0].strip()
