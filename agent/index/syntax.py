"""The syntax of one file: its definitions and imports.

No other file is read, so the result depends only on the text and is cached by it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from tree_sitter import Node

from agent.index.chains import Chain, parse_chain
from agent.index.languages import Match, Tree, find_matches, load_language, parse

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
    """`*` for all names, `default` for the default export of a script."""
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
    """The first bytes of the names of definitions, which are not references."""

    def around(self, byte: int, *, is_bound: bool = False) -> str:
        """Return the qualified name of the innermost definition around a byte.

        A name that a header uses, such as a default, is outside. A name that it binds is inside.
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


class _Tag(NamedTuple):
    """A match of a definition."""

    node: Node
    name: str
    name_node: Node
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
        tags = self._find_tags()
        for tag in tags:
            first, end = tag.node.start_byte, tag.node.end_byte - 1
            while stack[-1].last < end:
                stack.pop()
            outer, kind, body = stack[-1], tag.kind, _body(tag.node)
            if kind == "variable" and outer.kind not in ("module", "class"):
                continue  # it is local
            if kind == "function" and outer.kind == "class":
                kind = "method"
            qualified = join(outer.qualified, join(tag.owner, tag.name))
            if kind != "variable":
                span = _Span(first, body.start_byte if body else first, end, qualified, kind)
                stack.append(span)
                spans.append(span)
            if not tag.is_container:
                definitions.append(self._define(tag, qualified, kind, body))
        imports = (each for match in self._matches for each in _read_imports(self._tree, match))
        return Syntax(
            definitions=tuple(sorted(definitions, key=lambda definition: definition.line)),
            imports=tuple(dict.fromkeys(imports)),
            bases=self._find_bases(spans),
            spans=spans,
            named=frozenset(tag.name_node.start_byte for tag in tags),
        )

    def _find_tags(self) -> list[_Tag]:
        """Return the definitions, outer ones first, each name once with its largest node.

        Of two matches of a name, a function counts before a method or a variable.
        """
        by_name: dict[int, _Tag] = {}
        for match in self._matches:
            capture = next((c for c in match if c.startswith(("definition.", "container"))), "")
            kind = _KINDS.get(capture.partition(".")[2], "class")
            if not capture or (kind == "module" and _body(match[capture][0]) is None):
                continue  # Rust's `mod x;` names another file
            owner = _WORD.search(self._tree.text(match["owner"][0])) if "owner" in match else None
            for name in match.get("name", ()):
                text = self._tree.text(name).strip("\"'")
                tag = _Tag(
                    match[capture][0],
                    text,
                    name,
                    "method" if owner else kind,
                    owner[0] if owner else "",
                    capture == "container",
                )
                if (other := by_name.get(name.start_byte)) is not None:
                    kinds = (tag.kind, other.kind)
                    tag = max(other, tag, key=lambda tag: tag.node.end_byte - tag.node.start_byte)
                    tag = tag._replace(kind=min(kinds, key=_FIRST.index))
                    if owner_name := (owner[0] if owner else other.owner):
                        tag = tag._replace(kind="method", owner=owner_name)
                by_name[name.start_byte] = tag
        return sorted(by_name.values(), key=lambda tag: (tag.node.start_byte, -tag.node.end_byte))

    def _find_bases(self, spans: Sequence[_Span]) -> Mapping[str, Sequence[Chain]]:
        bases: dict[str, list[Chain]] = {}
        partial = Syntax((), (), spans=spans)
        for match in self._matches:
            if "base" in match and "owner" in match:
                start, name = match["owner"][0].start_byte, self._tree.text(match["owner"][0])
                around = partial.around(start, is_bound=True)
                owner = around if around.rpartition(".")[2] == name else join(around, name)
                chains = [parse_chain(self._tree.text(node)) for node in match["base"]]
                bases.setdefault(owner, []).extend(chains)
        return bases

    def _define(self, tag: _Tag, qualified: str, kind: Kind, body: Node | None) -> DefinitionSyntax:
        node, line = tag.node, tag.name_node.start_point.row + 1
        start, end = node.start_point.row + 1, node.end_point.row + 1
        if kind == "variable":
            signature = self._lines[start - 1].strip()
        else:
            signature = self._signature(node, body)
        doc = self._docstring(body) if self._is_python else self._comment_above(start - 1)
        return DefinitionSyntax(
            qualified, kind, start, line, end, signature[:_SIGNATURE_CHARS], doc
        )

    def _signature(self, node: Node, body: Node | None) -> str:
        """Return the decorators without arguments, and the text before the body, in one line.

        Without a body, it is the first line.
        """
        content, first, parts = self._tree.content, node.start_byte, []
        if node.type == "decorated_definition":
            *decorators, inner = node.named_children
            first = inner.start_byte
            texts = [self._tree.text(decorator) for decorator in decorators]
            parts = [text for text in texts if re.fullmatch(r"@\s*[\w.]+", text)]
        last = body.start_byte if body else content.find(b"\n", first, node.end_byte)
        text = content[first : last if last >= 0 else node.end_byte].decode(errors="replace")
        line = " ".join(_COMMENT.sub("", text).split())
        line = _LOOSE.sub(r"\1", line).replace(",)", ")")
        line = line.removesuffix(":") if self._is_python else _OPENING.sub("", line)
        return " ".join([*parts, line])

    def _docstring(self, body: Node | None) -> str:
        first = body.named_children[:1] if body else []
        string = first[0].named_children[:1] if first else []
        if not string or (first[0].type, string[0].type) != ("expression_statement", "string"):
            return ""
        text = self._tree.text(string[0]).lstrip("rRbBuUfF").strip("\"'").strip()
        return text.partition("\n")[0].strip()[:_DOC_CHARS]

    def _comment_above(self, row: int) -> str:
        """Return the first line of the comment that ends above a line."""
        doc = ""
        for line in reversed(self._lines[max(0, row - _DOC_LINES) : row]):
            mark = _COMMENT_LINE.match(line.strip())
            if mark is None:
                break
            if mark[0] not in ("#[", "@"):
                text = line.strip()[mark.end() :].removesuffix("*/").strip()
                doc = text or doc
        return doc[:_DOC_CHARS]


def _body(node: Node) -> Node | None:
    """Return the body of a definition, or of the function that a variable or a type holds."""
    inner = node.child_by_field_name("definition") or node
    value = inner.child_by_field_name("value") or inner
    return inner.child_by_field_name("body") or value.child_by_field_name("body")


def _read_imports(tree: Tree, match: Match) -> Iterator[Import]:
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
            for name in map(tree.text, match["imported"]):
                yield Import(module, name, alias or name)
        else:
            yield Import(module, None, alias)


def _read_use(path: str, outer: tuple[str, ...]) -> Iterator[Import]:
    """Yield the names of Rust's `a::{b, c as d, e::*}`."""
    head, brace, rest = path.partition("{")
    parts = (*outer, *(part.strip() for part in head.split("::") if part.strip()))
    if brace:
        if len(parts) < 20:
            for member in _split(rest.rpartition("}")[0]):
                yield from _read_use(member, parts)
        return
    last, _, alias = parts[-1].partition(" as ") if parts else ("", "", "")
    before = parts[:-1]
    if last == "self" and before:
        before, last = before[:-1], before[-1]
    if last:
        yield Import("::".join(before), last, None if last == "*" else (alias or last))


def _split(listed: str) -> Iterator[str]:
    """Yield the parts between commas outside of braces."""
    depth = start = 0
    for at, char in enumerate(listed):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield listed[start:at]
            start = at + 1
    if listed[start:].strip():
        yield listed[start:]
