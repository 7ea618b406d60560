"""Names that the parts of a syntax tree bind, hold and change."""

import ast
import builtins
from collections.abc import Iterable

BUILT_IN = frozenset(dir(builtins))

_PURE_METHODS = frozenset(
    [
        "capitalize",
        "casefold",
        "center",
        "copy",
        "count",
        "decode",
        "encode",
        "endswith",
        "find",
        "format",
        "get",
        "group",
        "groups",
        "index",
        "isalpha",
        "isdigit",
        "isidentifier",
        "islower",
        "isnumeric",
        "isspace",
        "isupper",
        "items",
        "join",
        "keys",
        "ljust",
        "lower",
        "lstrip",
        "match",
        "partition",
        "replace",
        "rfind",
        "rindex",
        "rjust",
        "rpartition",
        "rsplit",
        "rstrip",
        "search",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "translate",
        "upper",
        "values",
        "zfill",
    ]
)
"""Methods of the built-in types that change nothing in place."""

_FRESH = frozenset(
    [
        "abs",
        "bool",
        "bytes",
        "chr",
        "float",
        "hash",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "len",
        "open",
        "ord",
        "print",
        "range",
        "repr",
        "round",
        "str",
        "sum",
        "type",
    ]
)
"""Built-in functions whose result holds nothing of what they are given."""

_SWALLOWING = frozenset({"raises", "suppress"})
"""Context managers that may cut their block short without an error."""


def bound_by(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind in their own scope."""
    probe = _Bindings()
    for each in body:
        probe.visit(each)
    return probe.found


class _Bindings(ast.NodeVisitor):
    """Finds the names that one scope binds."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.found.add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.found.add(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.found.add(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.found.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        return

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {each.asname or each.name.partition(".")[0] for each in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found |= {each.asname or each.name for each in node.names}

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.found.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self.found.add(node.name)
        self.generic_visit(node)


def arguments(signature: ast.arguments) -> list[ast.arg]:
    rest = [each for each in (signature.vararg, signature.kwarg) if each is not None]
    return [*signature.posonlyargs, *signature.args, *signature.kwonlyargs, *rest]


def bound_in(target: ast.expr) -> set[str]:
    """Return the names that an assignment to a target binds or changes."""
    names = {
        part.id
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    }
    held = holder(target) if isinstance(target, ast.Attribute | ast.Subscript) else None
    return names | ({held} if held else set())


def holder(node: ast.expr) -> str | None:
    """Return the name at the start of `name.a[0].b`, or None."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def changed_by(node: ast.Call) -> str | None:
    """Return the name whose method may change it in place, or None."""
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr in _PURE_METHODS:
        return None
    return holder(method.value)


def parts_of(value: ast.expr) -> set[str]:
    """Return the names whose value, or a part of it, a value holds without a copy."""
    match value:
        case ast.Name():
            return {value.id}
        case ast.Attribute() | ast.Subscript() | ast.Starred() | ast.NamedExpr() | ast.Await():
            parts = [value.value]
        case ast.Tuple() | ast.List() | ast.Set():
            parts = value.elts
        case ast.Dict():
            parts = value.values
        case ast.IfExp():
            parts = [value.body, value.orelse]
        case ast.BoolOp():
            parts = value.values
        case ast.Call(func=ast.Name(id=name)) if name in _FRESH:
            return set()
        case ast.Call():  # `xs.pop()`, `wrap(xs)`: the result may hold what it was given
            parts = [value.func, *value.args, *(each.value for each in value.keywords)]
            return {name for each in parts for name in parts_of(each)} - BUILT_IN
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            parts = [value.elt, *(each.iter for each in value.generators)]
        case ast.DictComp():
            parts = [value.value, *(each.iter for each in value.generators)]
        case _:
            return set()
    return {name for each in parts for name in parts_of(each)}


def swallows(expression: ast.expr) -> bool:
    function = expression.func if isinstance(expression, ast.Call) else expression
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _SWALLOWING
