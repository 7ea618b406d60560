"""The languages of the index: their grammars, their queries, and a parser within bounds.

The grammars' own tag queries find definitions and calls. The files in `queries` add imports, base
classes, variables and other uses of names.
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
_TAGS = {"typescript": ("javascript", "typescript"), "tsx": ("javascript", "typescript")}
"""Wheels whose tag queries together hold for a grammar that extends another one."""

_QUERIES = {
    "javascript": ("ecmascript", "javascript"),
    "typescript": ("ecmascript", "typescript"),
    "tsx": ("ecmascript", "typescript"),
}
"""Names of the files in `queries`, for grammars that share some."""

# A pattern that collects the comments before a definition takes quadratic time for long ones.
_COMMENTS = re.compile(r"\(comment\)\* @doc\s*\.|\(#(?:strip|select-adjacent|set-adjacent)![^)]*\)")

# Broken text takes the parser quadratic time. Of 6,500 real files, none needs more than 0.03 looks
# per byte, of 45 microseconds each, and none is read more than 14 times.
_LOOKS, _LOOKS_PER_BYTE = 1000, 0.05
_CHUNK_BYTES = 2**14
_READS, _READS_PER_BYTE = 500, 20 / _CHUNK_BYTES

# Open brackets take quadratic memory: 8 kB of `a<` 240 MB, 2,400 brackets with errors 2.4 GB.
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
    uses: Query
    """Finds uses of names, and variables, which are not uses."""
    variables: Query
    """Finds variables with their types or values."""


def name_of_language(path: str) -> str | None:
    """Return the name of the language of a file, or None if the index does not support it."""
    return _SUFFIXES.get(path[path.rfind(".") :])  # faster than by a path object


@lru_cache(maxsize=16)
def load_language(name: str) -> Language:
    """Load the grammar of a language. This takes milliseconds, once in a process."""
    module = importlib.import_module(f"tree_sitter_{'typescript' if name == 'tsx' else name}")
    grammar = Grammar((getattr(module, f"language_{name}", None) or module.language)())
    tags = "".join(
        _COMMENTS.sub("", (files(f"tree_sitter_{wheel}") / "queries/tags.scm").read_text())
        for wheel in _TAGS.get(name, (name,))
    )
    outline, uses = (
        "".join(
            (files("agent.index") / f"queries/{prefix}.{kind}.scm").read_text()
            for prefix in _QUERIES.get(name, (name,))
        )
        for kind in ("outline", "uses")
    )
    return Language(
        grammar,
        _make_query(grammar, tags + outline, re.compile(rb"(?s)(?!.*@reference)")),
        Query(grammar, tags + uses),
        _make_query(grammar, uses, re.compile(rb"(?s).*@(?:local|attribute)")),
    )


def _make_query(grammar: Grammar, text: str, wanted: re.Pattern[bytes]) -> Query:
    """Return a query with the patterns of a text that match. Others would be most matches."""
    query = Query(grammar, text)
    for number in range(query.pattern_count):
        first, last = query.start_byte_for_pattern(number), query.end_byte_for_pattern(number)
        if not wanted.match(text.encode()[first:last]):
            query.disable_pattern(number)
    return query


@lru_cache(maxsize=4)
def parse(name: str, text: str) -> Tree | None:
    """Return the tree of a file, or None if the parser would take too much for it."""
    content = text.encode(errors="replace")
    steps = map(_STEPS.__getitem__, content.translate(None, _NO_BRACKETS))
    if max(accumulate(steps), default=0) > _MOST_OPEN or (
        b"<" * _MOST_OPEN_TYPES in content.translate(None, _NOT_OPENING)
    ):
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


def find_matches(query: Query, tree: Tree, ranges: Iterable[tuple[int, int]] = ()) -> list[Match]:
    """Return the matches of a query by the names of their captures, all or at ranges of bytes."""
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_DEEPEST)
    matches: list[Match] = []
    for first, last in ranges or [(0, len(tree.content))]:
        cursor.set_byte_range(first, last)
        matches += [match for _, match in cursor.matches(tree.root)]
    return matches
