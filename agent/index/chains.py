"""Expressions that may lead to a definition, as chains.

A *chain* is the path of an expression from its first name: `self.reader.load(path).close` is
`("self", "reader", "load", "()", "close")`.
"""

import ast

Chain = tuple[str, ...]

CALL = "()"
"""In a chain: the result of calling the part before."""
ENTER = "with"
"""In a chain: the value that a `with` statement binds for the part before."""
ANYTHING = "?"
"""First in a chain: an expression of unknown value."""
LITERAL = "literal"
"""First in a chain: a value of a type that is built into Python."""

_TRANSPARENT = {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"}
_LITERALS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Compare,
)  # fmt: skip


def chain(node: ast.expr) -> Chain:
    """Return the chain of an expression. It starts with `ANYTHING` if the expression is unknown."""
    names: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            names.append(CALL)
            node = node.func
        elif isinstance(node, ast.Await | ast.NamedExpr):
            node = node.value
        else:
            names.append(LITERAL if isinstance(node, _LITERALS) else ANYTHING)
            break
    else:
        names.append(node.id)
    names.reverse()
    return tuple(names)


def annotated(node: ast.expr | None) -> Chain | None:
    """Return the chain of a value with that annotation, or None if it names no single class."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return annotated(_expression(text))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        case ast.Name() | ast.Attribute():
            return (*chain(node), CALL)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            some = [side for side in (left, right) if not is_none(side)]
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


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
