"""The syntax of one file: its definitions and imports.

No other file is read, so the result depends only on the text and is cached by it.
`agent.index.symbols` combines the files.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from tree_sitter import Node

from agent.index.languages import Chain, Match, Tree, find_matches, load_language, parse, read_chain

Kind = Literal["module", "class", "function", "method", "variable"]

CACHED_FILES = 8192
"""The files whose definitions and imports a process remembers."""

_SIGNATURE_CHARS, _DOC_CHARS = 300, 200
_DOC_LINES = 60
_KINDS: Mapping[str, Kind] = {
    "function": "function",
    "macro": "function",
    "method": "method",
    "constant": "variable",
    "variable": "variable",
    "module": "module",
}
"""Kinds of definitions by the word of the tag query. All other words mean a kind of type."""

_FIRST = ("class", "module", "function", "method", "variable")

_COMMENT = re.compile(r"\s(?:#|//)\s.*$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"//[/!]?|/\*+!?|\*+/?|#\[|@")
_WORD = re.compile(r"\w+")
_LOOSE = re.compile(r"([(\[]) | (?=[)\]])")
_OPENING = re.compile(r"\s*(?:=>|[{=;]|\s)+$")


class DefinitionSyntax(NamedTuple):
    """A definition and its location. Lines are 1-based and inclusive."""

    qualified: str
    """Name within the file: `Reader.load`, and `Reader.load.helper` for a nested one; empty for
    the module."""
    kind: Kind
    start: int
    """First line, including decorators."""
    line: int
    end: int
    signature: str
    """The header in one line: decorators without arguments, then the text before the body."""
    doc: str
    """The first line of the docstring or of the comment above."""


class Import(NamedTuple):
    """A name that an import binds, or a whole module if `name` is None."""

    module: str
    """As it is written, without quotes."""
    name: str | None = None
    """`*` for all names, `default` for what a script exports by default."""
    alias: str | None = None


class _Span(NamedTuple):
    first: int
    body: int
    last: int
    qualified: str
    kind: Kind


_MODULE = _Span(0, 0, 2**40, "", "module")


@dataclass(frozen=True, slots=True)
class Syntax:
    """The definitions and imports of one file."""

    definitions: Sequence[DefinitionSyntax]
    """By line, the module first."""
    imports: Sequence[Import]
    bases: Mapping[str, Sequence[Chain]] = field(default_factory=dict)
    """Base classes by the qualified name of the class."""
    spans: Sequence[_Span] = ()
    """The bytes of definitions that hold others, by their first one, outer ones first."""
    named: frozenset[int] = frozenset()
    """The first bytes of the names of definitions, which are no references."""

    def around(self, byte: int, *, is_bound: bool = False) -> str:
        """Return the qualified name of the innermost definition around a byte.

        What a header names, such as a default, is outside, but what it binds is inside.
        """
        at = bisect_right(self.spans, byte, key=lambda span: span.first) - 1
        while (
            not (self.spans[at].first if is_bound else self.spans[at].body)
            <= byte
            <= self.spans[at].last
        ):
            at -= 1
        return self.spans[at].qualified


EMPTY = Syntax((DefinitionSyntax("", "module", 1, 1, 1, "", ""),), (), spans=(_MODULE,))
"""Of a file that cannot be parsed within the limits."""


@lru_cache(maxsize=CACHED_FILES)
def read_syntax(language: str, text: str) -> Syntax:
    """Return the definitions and imports of a file."""
    tree = parse(language, text)
    if tree is None:
        return EMPTY
    matches = find_matches(load_language(language).outline, tree)
    return _Outline(language, text, tree, matches).build()


def join(scope: str, name: str) -> str:
    """Return the qualified name of a name in a scope."""
    return f"{scope}.{name}" if scope else name


class _Found(NamedTuple):
    node: Node
    name: str
    at: Node
    """The node of the name."""
    kind: Kind
    owner: str
    is_container: bool


class _Outline:
    """Builds the syntax of a file from the matches of its outline query."""

    def __init__(self, language: str, text: str, tree: Tree, matches: Sequence[Match]) -> None:
        self._is_python = language == "python"
        self._lines = text.split("\n")
        self._tree = tree
        self._matches = matches

    def build(self) -> Syntax:
        last = len(self._lines) - (not self._lines[-1]) or 1
        doc = self._docstring(self._tree.root) if self._is_python else ""
        definitions = [DefinitionSyntax("", "module", 1, 1, last, "", doc)]
        spans, stack = [_MODULE], [_MODULE]
        found = self._find()
        for each in found:
            while stack[-1].last < each.node.end_byte - 1:
                stack.pop()
            body = _body(each.node)
            if (span := _span(each, body, stack[-1])) is None:
                continue
            if span.kind != "variable":
                stack.append(span)
                spans.append(span)
            if not each.is_container:
                definitions.append(self._define(each, span, body))
        imports = (each for match in self._matches for each in _imports(self._tree, match))
        return Syntax(
            definitions=tuple(sorted(definitions, key=lambda each: each.line)),
            imports=tuple(dict.fromkeys(imports)),
            bases=self._bases(spans),
            spans=spans,
            named=frozenset(each.at.start_byte for each in found),
        )

    def _find(self) -> list[_Found]:
        """Return the definitions, outer ones first, each name once with its largest node."""
        by_name: dict[int, _Found] = {}
        for match in self._matches:
            for name in match.get("name", ()):
                new = self._read_tag(match, name)
                if new is not None:
                    known = by_name.get(name.start_byte)
                    by_name[name.start_byte] = _merge(known, new) if known else new
        return sorted(
            by_name.values(), key=lambda each: (each.node.start_byte, -each.node.end_byte)
        )

    def _read_tag(self, match: Match, name: Node) -> _Found | None:
        tag = next((each for each in match if each.startswith(("definition.", "container"))), "")
        kind = _KINDS.get(tag.partition(".")[2], "class")
        if not tag or (kind == "module" and _body(match[tag][0]) is None):
            return None  # Rust's `mod x;` names another file
        owner = _WORD.search(self._tree.text(match["owner"][0])) if "owner" in match else None
        text, is_container = self._tree.text(name).strip("\"'"), tag == "container"
        return _Found(match[tag][0], text, name, kind, owner[0] if owner else "", is_container)

    def _bases(self, spans: Sequence[_Span]) -> Mapping[str, Sequence[Chain]]:
        bases: dict[str, list[Chain]] = {}
        partial = Syntax((), (), spans=spans)
        for match in self._matches:
            if "base" in match and "owner" in match:
                at, name = match["owner"][0].start_byte, self._tree.text(match["owner"][0])
                around = partial.around(at, is_bound=True)
                owner = around if around.rpartition(".")[2] == name else join(around, name)
                for node in match["base"]:
                    chain = read_chain(self._tree, node)
                    bases.setdefault(owner, []).append(chain)
        return bases

    def _define(self, found: _Found, span: _Span, body: Node | None) -> DefinitionSyntax:
        node, line = found.node, found.at.start_point.row + 1
        start, end = node.start_point.row + 1, node.end_point.row + 1
        if span.kind == "variable":
            signature = self._lines[start - 1].strip()
        else:
            signature = " ".join([*_marks(self._tree, node), self._header(node, body)])
        doc = self._docstring(body) if self._is_python else self._comment_above(start - 1)
        return DefinitionSyntax(
            span.qualified, span.kind, start, line, end, signature[:_SIGNATURE_CHARS], doc
        )

    def _header(self, node: Node, body: Node | None) -> str:
        """Return the text before the body, or the first line without one, in one line."""
        content, first = self._tree.content, node.start_byte
        if node.type == "decorated_definition" and (
            inner := node.child_by_field_name("definition")
        ):
            first = inner.start_byte
        last = body.start_byte if body else content.find(b"\n", first, node.end_byte)
        text = content[first : last if last >= 0 else node.end_byte].decode(errors="replace")
        line = " ".join(_COMMENT.sub("", text).split())
        line = _LOOSE.sub(r"\1", line).replace(",)", ")")
        return line.removesuffix(":") if self._is_python else _OPENING.sub("", line)

    def _docstring(self, body: Node | None) -> str:
        first = body.named_child(0) if body and body.named_child_count else None
        if first is None or first.type != "expression_statement" or not first.named_child_count:
            return ""
        string = first.named_child(0)
        if string is None or string.type != "string":
            return ""
        text = self._tree.text(string).lstrip("rRbBuUfF").strip("\"'").strip()
        return text.partition("\n")[0].strip()[:_DOC_CHARS]

    def _comment_above(self, row: int) -> str:
        """Return the first line of the comment that ends above a line."""
        doc = ""
        for line in reversed(self._lines[max(0, row - _DOC_LINES) : row]):
            found = _COMMENT_LINE.match(line.strip())
            if found is None:
                break
            if found[0] not in ("#[", "@"):
                text = line.strip()[found.end() :].removesuffix("*/").strip()
                doc = text or doc
        return doc[:_DOC_CHARS]


def _span(found: _Found, body: Node | None, outer: _Span) -> _Span | None:
    """Return where a definition is, or None for a variable that is local."""
    kind: Kind = found.kind
    if kind == "variable" and outer.kind not in ("module", "class"):
        return None
    if kind == "function" and outer.kind == "class":
        kind = "method"
    name = f"{found.owner}.{found.name}" if found.owner else found.name
    first, last = found.node.start_byte, found.node.end_byte - 1
    return _Span(first, body.start_byte if body else first, last, join(outer.qualified, name), kind)


def _body(node: Node) -> Node | None:
    """Return the body of a definition, or of the function that a variable or a type holds."""
    inner = node.child_by_field_name("definition") or node
    value = inner.child_by_field_name("value") or inner
    return inner.child_by_field_name("body") or value.child_by_field_name("body")


def _merge(known: _Found, new: _Found) -> _Found:
    """Return two matches of the same name as one: a function before a method or a variable."""
    kind = min(known.kind, new.kind, key=_FIRST.index)
    if known.owner or new.owner:
        kind = "method"
    larger = max(known, new, key=lambda each: each.node.end_byte - each.node.start_byte)
    return larger._replace(kind=kind, owner=known.owner or new.owner)


def _marks(tree: Tree, node: Node) -> Iterator[str]:
    """Yield the decorators that have no arguments."""
    if node.type == "decorated_definition":
        for each in node.named_children:
            text = tree.text(each)
            if each.type == "decorator" and re.fullmatch(r"@\s*[\w.]+", text):
                yield text


def _imports(tree: Tree, match: Match) -> Iterator[Import]:
    if "path" in match:
        yield from _read_use(re.sub(r"\s+", " ", tree.text(match["path"][0])), ())
    elif "child" in match:
        name = tree.text(match["child"][0])
        yield Import("self", name, name)
    elif "exported" in match:
        yield Import(".", tree.text(match["exported"][0]), "default")
    elif "module" in match:
        module = tree.text(match["module"][0]).strip("\"'`")
        alias = tree.text(match["alias"][0]) if "alias" in match else None
        if "star" in match:
            yield Import(module, "*")
        elif "default" in match:
            yield Import(module, "default", alias)
        elif "imported" in match:
            for node in match["imported"]:
                name = tree.text(node)
                yield Import(module, name, alias or name)
        else:
            yield Import(module, None, alias)


def _read_use(path: str, outer: tuple[str, ...]) -> Iterator[Import]:
    """Yield the names of Rust's `a::{b, c as d, e::*}`."""
    head, brace, rest = path.partition("{")
    parts = (*outer, *(each.strip() for each in head.split("::") if each.strip()))
    if brace:
        if len(parts) < 20:
            for each in _split(rest.rpartition("}")[0]):
                yield from _read_use(each, parts)
        return
    last, _, alias = parts[-1].partition(" as ") if parts else ("", "", "")
    before = parts[:-1]
    if last == "self" and before:
        before, last = before[:-1], before[-1]
    if last:
        yield Import("::".join(before), last, None if last == "*" else (alias or last))


def _split(listed: str) -> Iterator[str]:
    """Yield the parts between commas that are in no braces."""
    depth = start = 0
    for at, char in enumerate(listed):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield listed[start:at]
            start = at + 1
    if listed[start:].strip():
        yield listed[start:]
