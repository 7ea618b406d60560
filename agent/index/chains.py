"""Expressions that may lead to a definition, as chains.

A *chain* is the path of an expression from its first name: `self.reader.load(path).close` is
`("self", "reader", "load", "()", "close")`.
"""

import re

from tree_sitter import Node

from agent.index.languages import Tree

Chain = tuple[str, ...]

CALL = "()"
"""In a chain: the result of calling the part before."""
ANYTHING = "?"
"""First in a chain: an expression of unknown value."""
LITERAL = "literal"
"""First in a chain: a value of a type that is built into the language."""

_DEEPEST = 30

MEMBERS = {
    "attribute": ("object", "attribute"),
    "member_expression": ("object", "property"),
    "nested_type_identifier": ("module", "name"),
    "selector_expression": ("operand", "field"),
    "qualified_type": ("package", "name"),
    "field_expression": ("value", "field"),
    "scoped_identifier": ("path", "name"),
    "scoped_type_identifier": ("path", "name"),
    "method_invocation": ("object", "name"),
    "field_access": ("object", "field"),
}
"""The fields of the owner and the name of a member, by the type of node."""

_CALLS = {
    "call": "function",
    "call_expression": "function",
    "new_expression": "constructor",
    "object_creation_expression": "type",
    "composite_literal": "type",
    "struct_expression": "name",
}
_AROUND = {
    "await",
    "await_expression",
    "expression_list",
    "generic_function",
    "generic_type",
    "non_null_expression",
    "parenthesized_expression",
    "reference_expression",
    "try_expression",
    "unary_expression",
}
"""Nodes that have the value of their first part."""

_LITERALS = re.compile(
    r".*literal|.*string|.*_comprehension|integer|float|number|list|tuple|dictionary|set|array|object"
    r"|true|false|comparison_operator|generator_expression|array_expression"
)
_NAMES = {"super", "this", "self", "crate"}

_TYPE_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*")
_LIFETIME = re.compile(r"'[a-z_]\w*\b(?!')")
_TRANSPARENT = re.compile(
    r"(?:.*\.)?(?:Optional|Annotated|Final|ClassVar|Required|NotRequired|None|null|undefined|Readonly"
    r"|Partial|Option|Box|Rc|Arc|mut|const|dyn|impl|final|nil)"
)


def read_chain(tree: Tree, node: Node | None) -> Chain:
    """Return the chain of an expression. It starts with `ANYTHING` if the expression is unknown."""
    parts: list[str] = []
    for _ in range(_DEEPEST):
        if node is None:
            break
        kind = node.type
        if kind in _CALLS or kind == "method_invocation":
            parts.append(CALL)
        if kind in MEMBERS:
            owner, name = MEMBERS[kind]
            parts.append(tree.text(node.child_by_field_name(name)))
            node = node.child_by_field_name(owner) or node.child_by_field_name("scope")
            if node is None and kind == "method_invocation":
                return tuple(reversed(parts))
        elif kind in _CALLS:
            node = node.child_by_field_name(_CALLS[kind])
        elif kind in _AROUND:
            node = node.named_child(0)
        elif kind.endswith("identifier") or kind in _NAMES:
            return (tree.text(node), *reversed(parts))
        else:
            return (LITERAL if _LITERALS.fullmatch(kind) else ANYTHING, *reversed(parts))
    return (ANYTHING, *reversed(parts))


def read_type(tree: Tree, node: Node) -> Chain | None:
    """Return the chain of a value with that annotation, or None if it names no single class."""
    text = _LIFETIME.sub("", tree.text(node))
    names = [each for each in _TYPE_NAME.findall(text) if not _TRANSPARENT.fullmatch(each)]
    alternatives = [each for each in text.split("|") if any(name in each for name in names)]
    if not names or len(alternatives) > 1 or "Union[" in text:
        return None
    parts = names[0].replace("::", ".").split(".")
    if parts[-1] in ("type", "Type") and len(names) > 1:
        return tuple(names[1].split("."))
    return (*parts, CALL)
