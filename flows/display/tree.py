"""The steps of an attempt as a tree of its scopes."""

from collections.abc import Iterable

from rich.text import Text
from rich.tree import Tree

from flows.display.steps import entry
from reports.steps import StepView

_INDENT = 4


def tree(title: str, steps: Iterable[StepView], width: int) -> Tree:
    """Return steps under their scopes. The place of a scope is that of its first step."""
    root = Tree(title)
    scopes: dict[str, Tree] = {"": root}
    for step in steps:
        place = step.origin.scope
        depth = 1 + (place.count("/") + 1 if place else 0)
        shown = entry(step, max(20, width - _INDENT * depth))
        _scope(scopes, place).add(Text(shown.removeprefix(f"{place}/") if place else shown))
    return root


def _scope(scopes: dict[str, Tree], path: str) -> Tree:
    """Return the node of a scope, added below that of the scope around it."""
    if path not in scopes:
        around, _, name = path.rpartition("/")
        scopes[path] = _scope(scopes, around).add(Text(name, "bold"))
    return scopes[path]
