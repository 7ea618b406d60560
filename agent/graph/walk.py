"""A walk over the text of Python in the order in which it runs, noting the names that it uses."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from agent.graph.aliases import Aliases
from agent.graph.scopes import (
    arguments,
    bound_by,
    bound_in,
    changed_by,
    holder,
    parts_of,
    swallows,
)

_UNKNOWABLE = frozenset({"eval", "exec", "globals", "locals", "vars"})
"""Functions that read and write names which the text does not show."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Names:
    """The names of a piece of Python."""

    reads: set[str] = field(default_factory=set)
    """Names whose value from before may be used, built-in ones included."""
    writes: set[str] = field(default_factory=set)
    """Names that may be bound, deleted or changed in place."""
    kept: set[str] = field(default_factory=set)
    """Those of `writes` that may also keep their value from before."""
    modules: set[str] = field(default_factory=set)
    """Modules that are imported, by their whole names."""
    is_opaque: bool = False
    """True if it may read and write names that the text does not show."""

    def add(self, other: "Names") -> None:
        """Add what other code reads and writes, wherever it runs."""
        self.reads |= other.reads
        self.writes |= other.writes
        self.is_opaque |= other.is_opaque


class Walk(ast.NodeVisitor):
    """Visits statements in the order in which they run."""

    def __init__(self, bound: Iterable[str] = (), local: Iterable[str] = ()) -> None:
        self.names = Names()
        self.bound = set(bound)
        """Names that are bound here whatever happened before."""
        self._local = set(local)
        """Names of an inner scope: never names of the outer one."""
        self._used: list[Names] = []
        self._deferred: dict[str, Names] = {}
        """By name, what its functions read and write when they are called."""
        self._modules: set[str] = set()
        """Names of modules, whose functions are no methods that change them."""
        self._aliases = Aliases()

    # Names

    def _load(self, name: str) -> None:
        if name in self._local:
            return
        if name in _UNKNOWABLE:
            self.names.is_opaque = True
        if name not in self.bound:
            self.names.reads.add(name)
        if name in self._deferred:
            self._call(self._deferred[name])

    def _call(self, called: Names) -> None:
        """Add what a function does. It may be called wherever it is named."""
        for each in self._reached(called):
            self.names.reads |= each.reads - self.bound - self._local
            self.names.writes |= self._aliases.of(each.writes - self._local)
            self.names.is_opaque |= each.is_opaque
        self._used.append(called)

    def _reached(self, called: Names) -> list[Names]:
        """Return a function and all that it may call in turn."""
        found, names, todo = [called], set[str](), set(called.reads)
        while todo := todo - names:
            name = todo.pop()
            names.add(name)
            if name in self._deferred:
                found.append(self._deferred[name])
                todo |= self._deferred[name].reads
        return found

    def _bind(self, name: str) -> None:
        if name not in self._local:
            self.names.writes.add(name)
            self.bound.add(name)
            self._deferred.pop(name, None)
            self._modules.discard(name)
            self._aliases.forget(name)

    def _change(self, name: str) -> None:
        """Note a change in place, which needs the value from before."""
        self._load(name)
        changed = self._aliases.of([name]) - self._local
        self.names.writes |= changed
        self.names.reads |= changed - self.bound

    def visit_Name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self._load(node.id)
            case ast.Store():
                self._bind(node.id)
            case ast.Del():
                self._load(node.id)
                self._bind(node.id)

    # Changes in place

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._visit_part(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._visit_part(node)
        self.visit(node.slice)

    def _visit_part(self, node: ast.Attribute | ast.Subscript) -> None:
        name = holder(node)
        if name is not None and not isinstance(node.ctx, ast.Load):
            self._change(name)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        changed = changed_by(node)
        self.generic_visit(node)
        if changed is not None and changed not in self._modules:
            self._change(changed)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        name = holder(node.target)
        if name is None:
            self.visit(node.target)
        else:
            self._change(name)  # a list grows in place, a number is bound anew
            if not isinstance(node.target, ast.Name):
                self.visit(node.target)

    # Bindings

    def visit_Assign(self, node: ast.Assign) -> None:
        with self._noting() as used:
            self.visit(node.value)
        for target in node.targets:
            self._bind_to(target, used, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            with self._noting() as used:
                self.visit(node.value)
            self._bind_to(node.target, used, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        with self._noting() as used:
            self.visit(node.value)
        self._bind_to(node.target, used, node.value)

    @contextmanager
    def _noting(self) -> Iterator[list[Names]]:
        """Collect the functions that are named meanwhile: a value may hold them."""
        before, self._used = self._used, []
        used = self._used
        yield used
        self._used = [*before, *used]

    def _bind_to(self, target: ast.expr, used: list[Names], value: ast.expr) -> None:
        """Bind what an assignment binds to a value, in which functions were `used`."""
        sources = self._aliases.of(parts_of(value))  # the target may be one, and leaves its group
        self.visit(target)
        for name in bound_in(target):
            if used and name not in self._local:
                self._defer(name, used)
            self._aliases.join(name, sources)

    def _defer(self, name: str, used: list[Names]) -> None:
        held = Names()
        for each in used:
            held.add(each)
        self._deferred[name] = held

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self.names.modules.add(each.name)
            name = each.asname or each.name.partition(".")[0]
            self._bind(name)
            self._modules.add(name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = "." * node.level + (node.module or "")
        self.names.modules.add(origin)
        for each in node.names:
            if each.name == "*":
                self.names.is_opaque = True
            else:
                self._bind(each.asname or each.name)

    # Functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._define(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._define(node)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        with self._noting() as used:
            for each in node.decorator_list:
                self.visit(each)
            self._visit_signature(node)
        self._bind(node.name)
        self._defer(node.name, [*used, _inside(node, self._modules)])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_signature(node)
        self._call(_inside(node, self._modules))  # it may be called at once

    def _visit_signature(self, node: _Function) -> None:
        signature = node.args
        for default in [*signature.defaults, *signature.kw_defaults]:
            if default is not None:
                self.visit(default)
        for argument in arguments(signature):
            if argument.annotation is not None:
                self.visit(argument.annotation)
        if not isinstance(node, ast.Lambda) and node.returns is not None:
            self.visit(node.returns)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        with self._noting() as used:
            for each in [*node.decorator_list, *node.bases, *node.keywords]:
                self.visit(each)
            body = Walk(self.bound, self._local)
            body._deferred |= self._deferred
            body._modules |= self._modules
            for statement in node.body:
                body.visit(statement)
        own = body.bound - self.bound
        self.names.reads |= body.names.reads
        self.names.writes |= body.names.writes - own
        self.names.is_opaque |= body.names.is_opaque
        self._bind(node.name)
        self._defer(node.name, [*used, *body._deferred.values()])

    # Comprehensions have names of their own

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehend(node.generators, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehend(node.generators, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehend(node.generators, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehend(node.generators, [node.key, node.value])

    def _comprehend(self, generators: list[ast.comprehension], results: list[ast.expr]) -> None:
        before, bound = set(self._local), set(self.bound)
        for each in generators:
            self.visit(each.iter)
            self._local |= bound_in(each.target)
            self.visit(each.target)
            for condition in each.ifs:
                self.visit(condition)
        for result in results:
            self.visit(result)
        self._local, self.bound = before, bound  # it may have run for no element

    # Branches: bound afterwards is what each way binds

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.bound = self._branch(node.body) & self._branch(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.bound = self._branch([node.body]) & self._branch([node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._branch(node.values[1:])

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._repeat(node.body)
        self._branch(node.orelse)

    def visit_For(self, node: ast.For) -> None:
        self._loop(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self._loop(node)

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        with self._noting() as used:
            self.visit(node.iter)
        before = set(self.bound)
        self._bind_to(node.target, used, node.iter)
        self._repeat(node.body)
        self.bound = before
        self._branch(node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._try(node)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self._try(node)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        before = set(self.bound)
        ways = [self._branch([*node.body, *node.orelse])]
        for handler in node.handlers:
            ways.append(self._handle(handler))
        self.bound = before
        after = self._branch(node.finalbody)
        self.bound = set.intersection(*ways) | after

    def _handle(self, handler: ast.ExceptHandler) -> set[str]:
        if handler.type is not None:
            self.visit(handler.type)
        before = set(self.bound)
        if handler.name is not None:
            self._bind(handler.name)  # and it is deleted at the end
        after = self._branch(handler.body)
        self.bound = before
        return after

    def visit_With(self, node: ast.With) -> None:
        self._with(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        self._with(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            with self._noting() as used:
                self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind_to(item.optional_vars, used, item.context_expr)
        after = self._branch(node.body)
        if not any(swallows(item.context_expr) for item in node.items):
            self.bound = after

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            before = set(self.bound)
            for part in ast.walk(case.pattern):
                self._bind_pattern(part)
            if case.guard is not None:
                self.visit(case.guard)
            self._branch(case.body)
            self.bound = before

    def _bind_pattern(self, part: ast.AST) -> None:
        match part:
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._bind(name)
            case ast.MatchMapping(rest=str(name)):
                self._bind(name)
            case ast.MatchValue(value=value) | ast.MatchClass(cls=value):
                self.visit(value)

    def _branch(self, statements: Iterable[ast.AST]) -> set[str]:
        """Visit what may not run. Return what is bound if it did."""
        before, deferred = set(self.bound), dict(self._deferred)
        aliases = self._aliases.copy()
        for each in statements:
            self.visit(each)
        after, self.bound = self.bound, before
        self._aliases.add(aliases)
        for name, held in deferred.items():
            self._defer(name, [held, self._deferred.get(name, held)])
        return after

    def _repeat(self, statements: Sequence[ast.AST]) -> None:
        """Visit the body of a loop until it shares no more values."""
        known = -1
        while known != (known := self._aliases.count()):
            self._branch(statements)


def _inside(node: _Function, modules: set[str]) -> Names:
    """Return the outer names that a function reads and writes when it is called."""
    given = {argument.arg for argument in arguments(node.args)}
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    outer = {
        name
        for statement in body
        for part in ast.walk(statement)
        if isinstance(part, ast.Global)
        for name in part.names
    }
    local = (given | bound_by(body)) - outer
    walk = Walk(local=local)
    walk._modules = modules - local
    for each in body:
        walk.visit(each)
    # A function that it defines may be what it returns.
    for held in walk._deferred.values():
        walk.names.reads |= held.reads - local
        walk.names.writes |= held.writes - local
    return walk.names
