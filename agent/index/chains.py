"""Chains: paths of names in an expression, from its first name.

`self.reader.load(path).close` is `("self", "reader", "load", "()", "close")`. An expression is read
from its text, whatever its language is.
"""

import re

from tree_sitter import Node

from agent.index.languages import Tree

Chain = tuple[str, ...]

CALL = "()"
"""In a chain: the result of calling the part before."""
ANYTHING = "?"
"""First in a chain: an expression of unknown value."""

RECEIVERS = ("self", "this", "cls", "Self")
"""Names of the object or class around a method."""

LITERAL = "literal"
"""First in a chain: a text, a number or a collection."""

_MOST_CHARS = 1000
"""A longer expression is not read."""

_TYPE_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*")
_LIFETIME = re.compile(r"'[a-z_]\w*\b(?!')")
_TRANSPARENT = re.compile(
    r"(?:.*\.)?(?:Optional|Annotated|Final|ClassVar|None|null|undefined|Readonly|Partial"
    r"|Option|Box|Rc|Arc|mut|const|dyn|impl|final|nil)"
)

_MEMBER = re.compile(rb"(?:\?\.|\.|::)\s*$")
_SEPARATOR = re.compile(r"\?\.|\.|::")
_INNERMOST = re.compile(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]|(?:::|(?<=\w))<[^<>]*>")
_LITERAL = re.compile(r"\s*(?:[a-zA-Z]{0,2}[\"'`]|[\[{\d])")
_CALLED, _INDEXED = "\0", "\1"
_PREFIX = re.compile(r"^\s*(?:(?:new|await|mut)\b|[&*])\s*")
_PART = re.compile(rf"([\w$]+)({_CALLED}*)")


def read_chain(tree: Tree, node: Node) -> Chain:
    """Return the chain of a name with its owner."""
    before = tree.content[node.parent.start_byte : node.start_byte] if node.parent else b""
    separator = _MEMBER.search(before)
    owner = before[: separator.start()].decode(errors="replace") if separator else ""
    return (*parse_chain(owner), tree.text(node)) if separator else (tree.text(node),)


def parse_chain(expression: str) -> Chain:
    """Return the chain of an expression, `(ANYTHING,)` if it is not made of names and calls."""
    if _LITERAL.match(expression):
        return (LITERAL,)
    text = expression if len(expression) <= _MOST_CHARS else ""
    brackets = 1
    while brackets:
        text, brackets = _INNERMOST.subn(_replace_bracket, text)
    chain: list[str] = []
    for part in _SEPARATOR.split(_PREFIX.sub("", text)):
        name = _PART.fullmatch(part.strip())
        if name is None:
            return (ANYTHING,)
        chain += [name[1], *[CALL] * len(name[2])]
    return tuple(chain)


def parse_type(annotation: str) -> Chain | None:
    """Return the chain of the class that an annotation names, None if it does not name just one."""
    text = _LIFETIME.sub("", annotation)
    alternatives = [
        names
        for part in text.split("|")
        if (names := [n for n in _TYPE_NAME.findall(part) if not _TRANSPARENT.fullmatch(n)])
    ]
    if len(alternatives) != 1 or "Union[" in text:
        return None
    return tuple(_SEPARATOR.split(alternatives[0][0]))


def _replace_bracket(bracket: re.Match[str]) -> str:
    return {"(": _CALLED, "{": _CALLED, "[": _INDEXED}.get(bracket[0][0], "")
