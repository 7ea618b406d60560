"""The uses of names in one file."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from agent.index.chains import RECEIVERS, Chain, read_chain
from agent.index.languages import Match, Tree, find_matches, load_language, parse
from agent.index.syntax import Syntax, read_syntax


class ChainReference(NamedTuple):
    """A place at which a chain is evaluated."""

    chain: Chain
    scope: str
    """The qualified name of the innermost definition around it."""
    line: int
    is_call: bool
    starts_locally: bool
    """True if the first name is a variable of a function, whose value is unknown."""


def read_references(
    language: str, text: str, names: Collection[str] | None = None
) -> Iterator[ChainReference]:
    """Yield the references whose chain ends in one of the names, or all, in their order."""
    tree = parse(language, text)
    if tree is None:
        return
    syntax = read_syntax(language, text)
    wanted = None if names is None else {name.encode(errors="replace") for name in names}
    matches = find_matches(load_language(language).uses, tree)
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
    local = _find_locals(tree, matches, syntax)
    for first, node in sorted(uses.items()):
        name = tree.content[first : node.end_byte]
        if first in syntax.named or first in skipped or (wanted is not None and name not in wanted):
            continue
        scope = syntax.around(first)
        chain = read_chain(tree, node)
        is_local = _is_local(chain[0], scope, local)
        if not is_local or len(chain) > 1:
            line = node.start_point.row + 1
            yield ChainReference(chain, scope, line, first in calls, is_local)


def _find_locals(tree: Tree, matches: Iterable[Match], syntax: Syntax) -> set[tuple[str, str]]:
    """Return the variables of functions, each with the qualified name of its function."""
    functions = {span.qualified for span in syntax.spans if span.kind in ("function", "method")}
    variables = {
        (syntax.around(node.start_byte, is_bound=True), tree.text(node))
        for match in matches
        for node in match.get("local", ())
    }
    return {
        (scope, name) for scope, name in variables if scope in functions and name not in RECEIVERS
    }


def _is_local(name: str, scope: str, variables: Collection[tuple[str, str]]) -> bool:
    while scope:
        if (scope, name) in variables:
            return True
        scope = scope.rpartition(".")[0]
    return False
