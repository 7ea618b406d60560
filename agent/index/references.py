"""The uses of names in one file, and the values of its variables."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from agent.index.chains import ANYTHING, RECEIVERS, Chain, parse_chain, parse_type, read_chain
from agent.index.languages import Match, Tree, find_matches, load_language, parse
from agent.index.syntax import join, read_syntax

_CACHED_VARIABLES = 256
_FEW = 64
"""Places of a file that are searched one by one, and not all at once."""

_NOTHING = ("None", "null", "nil", "undefined")


class ChainReference(NamedTuple):
    """A place at which a chain is evaluated."""

    chain: Chain
    scope: str
    """The qualified name of the innermost definition around it."""
    line: int
    is_call: bool


class VariableValue(NamedTuple):
    """The chain of a type or an expression in a scope, which gives a variable its value."""

    scope: str
    chain: Chain


def read_references(
    language: str, text: str, names: Collection[str] | None = None
) -> Iterator[ChainReference]:
    """Yield the references whose chain ends in one of the names, or all, in their order."""
    tree = parse(language, text)
    if tree is None:
        return
    syntax = read_syntax(language, text)
    wanted = None if names is None else {name.encode(errors="replace") for name in names}
    ranges = []
    if wanted:
        words = b"|".join(map(re.escape, sorted(wanted)))
        ranges = [match.span() for match in re.finditer(words, tree.content)]
    query = load_language(language).uses
    matches = find_matches(query, tree, ranges if len(ranges) <= _FEW else ())
    uses = {node.start_byte: node for match in matches for node in match.get("use", ())}
    calls = {
        node.start_byte
        for match in matches
        if any(kind in match for kind in ("reference.call", "reference.class"))
        for node in match["name"]
    }
    skipped = {node.start_byte for match in matches for node in match.get("local", ())}
    for match in matches:
        for node in match.get("skip", ()):
            skipped.update(range(node.start_byte, node.end_byte))
    for first, node in sorted(uses.items()):
        name = tree.content[first : node.end_byte]
        if first in syntax.named or first in skipped or (wanted is not None and name not in wanted):
            continue
        scope, line = syntax.around(first), node.start_point.row + 1
        yield ChainReference(read_chain(tree, node), scope, line, first in calls)


@lru_cache(maxsize=_CACHED_VARIABLES)
def read_variables(language: str, text: str) -> Mapping[str, Collection[VariableValue]]:
    """Return the values of variables by qualified name, such as `main.reader`.

    A variable with an unknown value has none.
    """
    tree = parse(language, text)
    if tree is None:
        return {}
    syntax = read_syntax(language, text)
    values: dict[str, set[VariableValue | None]] = {}
    for match in find_matches(load_language(language).variables, tree):
        for node in (*match.get("local", ()), *match.get("attribute", ())):
            scope, name = syntax.around(node.start_byte, is_bound=True), tree.text(node)
            chain = _read_value(tree, match)
            owner = scope.rpartition(".")[0] if "attribute" in match else scope
            if name not in RECEIVERS and chain != ():
                value = VariableValue(scope, chain) if chain else None
                values.setdefault(join(owner, name), set()).add(value)
    return {
        name: {value for value in options if value and None not in options}
        for name, options in values.items()
    }


def _read_value(tree: Tree, match: Match) -> Chain | None:
    """Return the chain of the type or value that a match binds, `()` for none yet."""
    if "type" in match:
        return parse_type(tree.text(match["type"][0]))
    value = tree.text(match["value"][0]) if "value" in match else ""
    chain = parse_chain(value)
    return () if value in _NOTHING else None if chain[0] == ANYTHING else chain
