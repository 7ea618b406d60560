"""What one file does with names: the values of its variables, and where it uses which name."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Node

from agent.index.chains import (
    ANYTHING,
    CALL,
    LITERAL,
    MEMBERS,
    Chain,
    read_chain,
    read_type,
)
from agent.index.languages import Match, Tree, find_matches, load_language, parse
from agent.index.syntax import Syntax, join, read_syntax

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
