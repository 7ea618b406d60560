"""The files of a repository whose symbols are known, each read when a question first needs it.

Of each file: its definitions and imports, the values of its variables, and where it uses names.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from tree_sitter import Node

from agent.index.languages import (
    ANYTHING,
    CALL,
    LITERAL,
    MEMBERS,
    Chain,
    Match,
    Tree,
    find_matches,
    load_language,
    name_of_language,
    parse,
    read_chain,
    read_type,
)
from agent.index.syntax import DefinitionSyntax, Import, Kind, Syntax, join, read_syntax
from agent.testfiles import read_test_files

_CACHED_BINDINGS = 256
_MOST_VALUES = 4
_FEW = 64
"""Places of a file that are searched one by one, and not all at once."""
_RECEIVERS = ("self", "this", "cls")


class VariableBinding(NamedTuple):
    """The value of a variable, as seen from a scope."""

    chain: Chain
    scope: str


class ChainReference(NamedTuple):
    """A place at which a chain is evaluated."""

    chain: Chain
    scope: str
    """The qualified name of the innermost definition around it."""
    line: int
    is_call: bool


@lru_cache(maxsize=_CACHED_BINDINGS)
def read_bindings(language: str, text: str) -> Mapping[str, Sequence[VariableBinding]]:
    """Return the values of variables by scope and name, such as `main.reader`.

    There is none if one of them is unknown. `main()` is what `main` returns.
    """
    tree = parse(language, text)
    if tree is None:
        return {}
    syntax = read_syntax(language, text)
    found: dict[str, list[VariableBinding]] = {}
    unknown: set[str] = set()
    for match in find_matches(load_language(language).bindings, tree):
        for name, value in _bindings(tree, match, syntax):
            known = found.setdefault(name, [])
            if value is None or len(known) == _MOST_VALUES:
                unknown.add(name)
            elif value.chain and value not in known:
                known.append(value)
    return {name: () if name in unknown else tuple(known) for name, known in found.items()}


def read_references(
    language: str, text: str, names: Collection[str] | None = None
) -> Iterator[ChainReference]:
    """Yield the references whose chain ends in one of the names, or all, in their order."""
    tree = parse(language, text)
    if tree is None:
        return
    syntax = read_syntax(language, text)
    wanted = None if names is None else {name.encode(errors="replace") for name in names}
    ranges = _find_words(tree.content, wanted) if wanted else []
    uses, calls, skipped = _read_uses(
        find_matches(load_language(language).uses, tree, ranges if len(ranges) <= _FEW else ())
    )
    for first, (name, node) in sorted(uses.items()):
        if (
            first in syntax.named
            or first in skipped
            or (wanted and tree.content[first : name.end_byte] not in wanted)
        ):
            continue
        chain = read_chain(tree, node)
        if chain[-1] == CALL:  # of a method, whose call is one node with its name
            chain = chain[:-1]
        if chain[0] == ANYTHING:
            chain = (ANYTHING, chain[-1])
        if chain[0] != LITERAL or len(chain) > 1:
            scope = syntax.around(first)
            yield ChainReference(chain, scope, name.start_point.row + 1, first in calls)


def _find_words(content: bytes, words: Collection[bytes]) -> list[tuple[int, int]]:
    """Return where the words may be, as bytes."""
    pattern = b"|".join(map(re.escape, sorted(words)))
    return [match.span() for match in re.finditer(pattern, content)]


def _read_uses(
    matches: Sequence[Match],
) -> tuple[dict[int, tuple[Node, Node]], set[int], set[int]]:
    """Return the uses of names and the calls by their first bytes, and what are no uses."""
    uses: dict[int, tuple[Node, Node]] = {}
    calls: set[int] = set()
    ranges: list[Node] = []
    skipped: set[int] = set()
    for match in matches:
        for node in match.get("use", ()):
            named = (
                node.child_by_field_name(MEMBERS[node.type][1]) if node.type in MEMBERS else node
            )
            if named and (node.type in MEMBERS or named.start_byte not in uses):
                uses[named.start_byte] = (named, node)
            if node.type == "method_invocation" and named:
                calls.add(named.start_byte)
        if any(kind in match for kind in ("reference.call", "reference.class")):
            calls.update(node.start_byte for node in match["name"])
        for kind in ("variable", "attribute", "rest"):
            skipped.update(node.start_byte for node in match.get(kind, ()))
        ranges += match.get("skip", ())
    for node in ranges:
        skipped.update(range(node.start_byte, node.end_byte))
    return uses, calls, skipped


def _bindings(
    tree: Tree, match: Match, syntax: Syntax
) -> Iterator[tuple[str, VariableBinding | None]]:
    """Yield the names that a match binds and their values, an empty chain for none yet."""
    chain = _value(tree, match)
    for kind in ("variable", "function", "attribute", "rest"):
        for node in match.get(kind, ()):
            scope = syntax.around(node.start_byte, is_bound=True)
            value = None if chain is None else VariableBinding(chain, scope)
            receiver = tree.text(match["receiver"][0]) if "receiver" in match else "self"
            if kind in ("variable", "rest"):
                yield join(scope, tree.text(node)), value
            elif kind == "function":
                yield f"{scope}{CALL}", value
            elif receiver in _RECEIVERS:
                yield join(scope.rpartition(".")[0], tree.text(node)), value


def _value(tree: Tree, match: Match) -> Chain | None:
    """Return the chain of the bound value, None if it is unknown, `()` if there is none yet."""
    if "type" in match:
        return read_type(tree, match["type"][0])
    if "rest" in match:
        return (LITERAL,)
    if "value" not in match:
        return None
    node = match["value"][0]
    if node.type in ("none", "null", "nil", "undefined"):
        return ()
    chain = read_chain(tree, node)
    return None if chain[0] == ANYTHING else chain


class SourceFiles:
    """The files of one state of a repository.

    The text of a file tells whether it can matter for a name, in a thousandth of the time of
    parsing. A file with an unchanged text is not read again for another state.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` are all files of the repository by their paths."""
        known = sorted(path for path in texts if name_of_language(path))
        self.test_files = read_test_files(texts, texts.__getitem__)
        """The answer to which files are tests."""
        self.tests = frozenset(filter(self.test_files.owns, known))
        """The files that belong to a test suite."""
        code = [path for path in known if path not in self.tests]
        self.texts = {path: texts[path] for path in (*code, *sorted(self.tests))}
        """The files by their paths, code before tests."""
        self._imports: dict[str, dict[str, list[Import]]] = {}
        self._named: dict[str, dict[str, list[DefinitionSyntax]]] = {}
        self._kinds: dict[str, dict[str, Kind]] = {}

    def syntax(self, path: str) -> Syntax:
        """Return the definitions and imports of a file."""
        return read_syntax(_language(path), self.texts[path])

    def bindings(self, path: str) -> Mapping[str, Sequence[VariableBinding]]:
        """Return the values of a file's variables by scope and name."""
        return read_bindings(_language(path), self.texts[path])

    def references(
        self, path: str, names: Collection[str] | None = None
    ) -> Iterator[ChainReference]:
        """Yield the references of a file that end in one of the names, or all."""
        return read_references(_language(path), self.texts[path], names)

    def find(self, path: str, qualified: str) -> list[DefinitionSyntax]:
        """Return the definitions of a file under a qualified name, which overloads share."""
        if path not in self._named:
            named = self._named[path] = {}
            for each in self.syntax(path).definitions:
                named.setdefault(each.qualified, []).append(each)
        return self._named[path].get(qualified, [])

    def kinds(self, path: str) -> Mapping[str, Kind]:
        """Return the kinds of the definitions of a file that hold others, by qualified name."""
        if path not in self._kinds:
            spans = self.syntax(path).spans
            self._kinds[path] = {span.qualified: span.kind for span in reversed(spans)}
        return self._kinds[path]

    def imports(self, path: str, name: str) -> list[Import]:
        """Return the imports of a file that bind a name; `*` for those of all names."""
        if path not in self._imports:
            found = self._imports[path] = {}
            for each in self.syntax(path).imports:
                found.setdefault(_local_name(each, path), []).append(each)
        return self._imports[path].get(name, [])

    def containing(self, name: str) -> Iterator[str]:
        """Yield the files whose text contains a name as a word."""
        literal = re.escape(name)
        word = re.compile(rf"{literal}\b(?<!\w{literal})")  # faster than `\b` at the beginning
        for path, text in self.texts.items():
            if name in text and word.search(text):
                yield path

    @cached_property
    def aliases(self) -> Mapping[str, set[str]]:
        """Other names that imports give to definitions, by the name of the definition."""
        found: dict[str, set[str]] = {}
        for path in self.texts:
            for each in self.syntax(path).imports:
                if each.alias and each.name and each.alias != each.name:
                    found.setdefault(each.name, set()).add(each.alias)
        return found


def _language(path: str) -> str:
    return name_of_language(path) or ""


def _local_name(each: Import, path: str) -> str:
    if each.alias or each.name:
        return each.alias or each.name or ""
    if path.endswith(".go"):
        parts = [part for part in each.module.split("/") if not re.fullmatch(r"v\d+", part)]
        return parts[-1] if parts else ""
    return each.module.partition(".")[0]
