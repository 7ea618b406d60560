"""The languages whose symbols are known: their grammars, their queries, and their expressions.

The grammars' own tag queries find definitions and calls. Files in `queries` add what these leave
out: imports, variables, types, base classes and other uses of names.

An expression that may lead to a definition is read as a *chain*, the path from its first name:
`self.reader.load(path).close` is `("self", "reader", "load", "()", "close")`.
"""

import importlib
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from typing import NamedTuple

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Query, QueryCursor

_SUFFIXES = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "tsx",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
}
_WHEELS = {"tsx": "typescript"}
_TAGS = {"typescript": ("javascript", "typescript"), "tsx": ("javascript", "typescript")}
"""Wheels whose tag queries together hold for a grammar that extends another one."""

_OWN = {
    "javascript": ("ecmascript", "javascript"),
    "typescript": ("ecmascript", "typescript"),
    "tsx": ("ecmascript", "typescript"),
}
"""Names of our own queries, where they are not those of the grammar."""

# A pattern that collects the comments before a definition takes quadratic time for long ones.
_COMMENTS = re.compile(r"\(comment\)\* @doc\s*\.|\(#(?:strip|select-adjacent|set-adjacent)![^)]*\)")

# Broken text takes the parser quadratic time. Of 6,500 real files, none needs more than 0.03 looks
# per byte, of 45 microseconds each, and none is read more than 14 times.
_LOOKS, _LOOKS_PER_BYTE = 1000, 0.05
_CHUNK_BYTES = 2**14
_READS, _READS_PER_BYTE = 500, 20 / _CHUNK_BYTES

# What stays open takes quadratic memory: 8 kB of `a<` 240 MB, 2,400 brackets with errors 2.4 GB.
_MOST_OPEN_TYPES, _MOST_OPEN = 200, 400
_NOT_OPENING = bytes(set(range(256)) - set(b"<>;(){}"))
_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))
_STEPS = {**dict.fromkeys(b"([{", 1), **dict.fromkeys(b")]}", -1)}

# The time to search a node grows with its depth.
_DEEPEST = 500

Match = dict[str, list[Node]]


class Tree(NamedTuple):
    """A parsed file."""

    root: Node
    content: bytes

    def text(self, node: Node | None) -> str:
        """Return the text of a node, '' for none."""
        if node is None:
            return ""
        return self.content[node.start_byte : node.end_byte].decode(errors="replace")


class Language(NamedTuple):
    """A grammar with its queries."""

    grammar: Grammar
    outline: Query
    """Finds definitions, base classes and imports."""
    bindings: Query
    """Finds variables with what is known of their values."""
    uses: Query
    """Finds uses of names, and bindings, which are no uses."""


def name_of_language(path: str) -> str | None:
    """Return the name of the language of a file, or None if its symbols are not known."""
    return _SUFFIXES.get(path[path.rfind(".") :])  # faster than by a path object


@lru_cache(maxsize=16)
def load_language(name: str) -> Language:
    """Load the grammar of a language. This takes milliseconds, once in a process."""
    module = importlib.import_module(f"tree_sitter_{_WHEELS.get(name, name)}")
    make = getattr(module, f"language_{name}", None) or module.language
    grammar = Grammar(make())
    tags = "".join(map(_read_tags, _TAGS.get(name, (name,))))
    outline, bindings, uses = (
        "".join((files("agent.index") / f"queries/{each}.{kind}.scm").read_text() for each in own)
        for own in [_OWN.get(name, (name,))]
        for kind in ("outline", "bindings", "uses")
    )
    language = Language(
        grammar,
        *(Query(grammar, each) for each in (tags + outline, bindings, tags + bindings + uses)),
    )
    _disable_references(language.outline, (tags + outline).encode())
    return language


def _disable_references(query: Query, text: bytes) -> None:
    """Leave out the patterns of references, which are most matches."""
    for number in range(query.pattern_count):
        first, last = query.start_byte_for_pattern(number), query.end_byte_for_pattern(number)
        if b"@reference" in text[first:last]:
            query.disable_pattern(number)


def _read_tags(wheel: str) -> str:
    tags = files(f"tree_sitter_{wheel}") / "queries/tags.scm"
    return _COMMENTS.sub("", tags.read_text())


@lru_cache(maxsize=4)
def parse(name: str, text: str) -> Tree | None:
    """Return the tree of a file, or None if the parser would take too much for it."""
    content = text.encode(errors="replace")
    if _is_nested_too_deep(content):
        return None
    source = _Source(content)
    try:
        tree = Parser(load_language(name).grammar).parse(source.read, progress_callback=source.stop)
    except ValueError:  # it was stopped
        return None
    source.is_parsed = True
    return Tree(tree.root_node, content)


class _Source:
    """A text that the parser reads, as often as its size allows."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._looks = _LOOKS + _LOOKS_PER_BYTE * len(content)
        self._reads = _READS + _READS_PER_BYTE * len(content)
        self.is_parsed = False

    def read(self, at: int, _: object) -> bytes:
        """Return a part of the text, nothing if the parser has read too much."""
        self._reads -= 1
        return self._content[at : at + _CHUNK_BYTES] if self.is_parsed or self._reads > 0 else b""

    def stop(self, *_: object) -> bool:
        """Return True if the parser has worked too long."""
        self._looks -= 1
        return self._looks < 0 or self._reads < 0


def _is_nested_too_deep(content: bytes) -> bool:
    steps = map(_STEPS.__getitem__, content.translate(None, _NO_BRACKETS))
    if max(accumulate(steps), default=0) > _MOST_OPEN:
        return True
    return b"<" * _MOST_OPEN_TYPES in content.translate(None, _NOT_OPENING)


def find_matches(query: Query, tree: Tree, ranges: Iterable[tuple[int, int]] = ()) -> list[Match]:
    """Return the matches of a query by the names of their captures, all or at ranges of bytes."""
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_DEEPEST)
    found: list[Match] = []
    for first, last in ranges or [(0, len(tree.content))]:
        cursor.set_byte_range(first, last)
        found += [match for _, match in cursor.matches(tree.root)]
    return found


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
