"""Names that a piece of Python reads and writes, from its text alone."""

import ast
import builtins
from collections.abc import Iterable

Edge = tuple[str, str, frozenset[str]]
"""A step, a later step, and the variables that flow to it."""


def get_reads(source: str) -> set[str]:
    """Return the names whose value from before may be used, without Python's own.

    Raises:
        SyntaxError: it is not Python.
    """
    return _read(source).reads - set(dir(builtins))


def get_writes(source: str) -> set[str]:
    """Return the names that may be bound, deleted or changed in place.

    A change of an argument by a function that is called is not in the text.

    Raises:
        SyntaxError: it is not Python.
    """
    return _read(source).writes


def infer_edges(steps: Iterable[tuple[str, str]]) -> list[Edge]:
    """Return the flows between steps, given as ids with their sources, in the order of execution.

    Who uses a function reads what the function reads that steps behind it have written.

    Raises:
        SyntaxError: a source is not Python.
    """
    writers: dict[str, str] = {}
    late: dict[str, set[str]] = {}
    edges: list[Edge] = []
    for step, source in steps:
        carried: dict[str, set[str]] = {}
        names = sorted(get_reads(source) & writers.keys())
        for name in names:  # which grow
            carried.setdefault(writers[name], set()).add(name)
            order = [*late]
            behind = order[order.index(writers[name]) + 1 :]
            more = sorted(late[writers[name]] - {*names})
            names += [variable for variable in more if writers.get(variable) in behind]
        edges += [(writer, step, frozenset(sent)) for writer, sent in sorted(carried.items())]
        writers |= dict.fromkeys(get_writes(source), step)
        late[step] = _get_reads_of_functions(source)
    return edges


def _get_reads_of_functions(source: str) -> set[str]:
    """Return the variables that the functions in a source read when they are called."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, functions)]
    return {name for node in nodes for name in get_reads(ast.unparse(node))}


def _read(source: str) -> "_Names":
    names = _Names()
    names.visit(ast.parse(source))
    return names


class _Names(ast.NodeVisitor):
    """Reads statements in the order in which they run."""

    def __init__(self, bound: Iterable[str] = ()) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self._bound = set(bound)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._bind(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit([node.value, node.annotation, node.target] if node.value else [node.annotation])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self._visit([node.value, node.target])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit([node.value, node.target])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._change(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._change(node)
        self.visit(node.slice)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                self.writes.add(name)  # such as `xs.append(x)`, whose value nothing uses

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._try([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815 - as ast names it

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._try(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._try(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._try(node.body + node.orelse, *([handler] for handler in node.handlers))
        self._visit(node.finalbody)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        self._bound |= {node.name} if node.name else set()  # Python deletes it afterwards
        self._visit(node.body)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0])

    visit_ImportFrom = visit_Import  # noqa: N815 - as ast names it

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_inside(node.body, [])
        self._bind(node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        own = node.args
        self._visit([*own.defaults, *filter(None, own.kw_defaults)])
        parameters = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
        if isinstance(node, ast.Lambda):
            body: list[ast.AST] = [node.body]
        else:
            self._visit(node.decorator_list)
            body = [*node.body]
            self._bind(node.name)
        self._visit_inside(body, [each.arg for each in parameters if each])

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as ast names it
    visit_Lambda = visit_FunctionDef  # noqa: N815 - as ast names it

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        parts: list[ast.AST] = []
        for made in node.generators:
            parts += [made.iter, made.target, *made.ifs]
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._visit_inside([*parts, *results], [])

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815 - as ast names it

    def _visit(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_inside(self, nodes: Iterable[ast.AST], parameters: Iterable[str]) -> None:
        """Visit a scope, whose own names are none of this one's."""
        inner = _Names({*self._bound, *parameters})
        inner._visit(nodes)
        self.reads |= inner.reads
        shared = {
            name
            for node in nodes
            for each in ast.walk(node)
            if isinstance(each, ast.Global)
            for name in each.names
        }
        self.writes |= inner.writes & shared

    def _try(self, *branches: Iterable[ast.AST]) -> None:
        """Visit branches, of which one may run. A name is bound after them if all bind it."""
        before, after = set(self._bound), []
        for branch in branches:
            self._bound = set(before)
            self._visit(branch)
            after.append(self._bound)
        self._bound = set.intersection(*after)

    def _change(self, node: ast.Attribute | ast.Subscript) -> None:
        self.visit(node.value)
        base: ast.AST = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.writes.add(base.id)

    def _use(self, name: str) -> None:
        if name not in self._bound:
            self.reads.add(name)

    def _bind(self, name: str) -> None:
        self.writes.add(name)
        self._bound.add(name)
