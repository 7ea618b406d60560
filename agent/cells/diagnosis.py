"""The reason of a failed cell: what it used, and the patch that would repair it."""

import ast
import builtins
import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from agent.cells.notebook import Notebook, NotebookCell

_SHOWN_NAMES = 20
_SIMILARITY = 0.75

MODULES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
"""Modules by their usual names, as in the kernel."""

_HOLDERS = {
    "Counter": "collections",
    "OrderedDict": "collections",
    "Path": "pathlib",
    "dataclass": "dataclasses",
    "dedent": "textwrap",
    "deepcopy": "copy",
    "defaultdict": "collections",
    "deque": "collections",
    "lru_cache": "functools",
    "partial": "functools",
    "reduce": "functools",
}
"""Names that are usually imported from a module of Python's own."""


def diagnosis(notebook: Notebook, cell: NotebookCell) -> str:
    """Return the inputs of a failed cell and a possible repair, as lines."""
    lines = []
    used = []
    for variable in notebook.get_used_variables(cell):
        writer = variable.writer
        stale = ", stale" if writer.state == "stale" else ""
        used.append(f"{format_name(variable.name)} (cell {writer.number}{stale})")
    if used:
        lines.append(f"It used {join_names(used)}.")
    error = cell.record.error
    if error is not None and error.name:
        lines += _of_a_name(notebook, cell, error.name, importable=error.importable)
    return "\n".join(lines)


def format_name(name: str) -> str:
    """Return the name of a variable, or of a class of a cell, for a user."""
    kind, at, _ = name.partition("@")
    return f"class {kind}" if at else name


def join_names(names: Iterable[str]) -> str:
    """Return names in one line, which has an end."""
    whole = list(names)
    more = len(whole) - _SHOWN_NAMES
    return ", ".join(whole[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _of_a_name(notebook: Notebook, cell: NotebookCell, name: str, *, importable: bool) -> list[str]:
    """Return the lines about a name without a value."""
    for later in notebook.cells[cell.number :]:
        if later.record.writes.get(name):
            return [f"`{name}` is written by cell {later.number}, which comes after this one."]
    # The name is in the text of the failed cell, or of an earlier one with a function it calls.
    users = [
        user
        for user in notebook.cells[: cell.number]
        if any(node.id == name for node in _names(user.code))
    ]
    if not users:
        return []
    place = users[-1]
    repair = find_repair(name, place.code, notebook.before(cell.number), importable=importable)
    if repair is None:
        return []
    writer = notebook.writer(repair.instead, cell) if repair.instead else None
    problem = (
        f"Was `{repair.instead}` meant{f', which cell {writer.number} wrote' if writer else ''}?"
    )
    return [
        problem if repair.instead else f"`{name}` is not imported.",
        *_patch(place, repair.code),
    ]


@dataclass(frozen=True)
class Repair:
    """Code in which a name without a value has one."""

    code: str
    instead: str
    """The name that was meant; '' if an import was missing."""


def find_repair(name: str, code: str, known: Iterable[str], *, importable: bool) -> Repair | None:
    """Return code with an import of a name, or with a known name like it, or None without either.

    `importable` says whether there is a module of that name.
    """
    if name in _HOLDERS:
        return Repair(f"from {_HOLDERS[name]} import {name}\n{code}", "")
    if importable:
        statement = f"import {MODULES[name]} as {name}" if name in MODULES else f"import {name}"
        return Repair(f"{statement}\n{code}", "")
    bound = [node.id for node in _names(code) if isinstance(node.ctx, ast.Store)]
    candidates = [*known, *dir(builtins), *bound]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=_SIMILARITY)
    return Repair(_rename(code, name, close[0]), close[0]) if close else None


def _names(code: str) -> list[ast.Name]:
    try:
        return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _rename(code: str, name: str, right: str) -> str:
    """Return code with every use of `name` replaced by `right`."""
    lines = [line.encode() for line in code.splitlines(keepends=True)]
    for node in sorted(_names(code), key=lambda node: (node.lineno, -node.col_offset)):
        if node.id == name:
            line, start = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = (
                line[:start] + right.encode() + line[start + len(name.encode()) :]
            )
    return b"".join(lines).decode()


def _patch(cell: NotebookCell, code: str) -> list[str]:
    """Return the patch of a cell, as lines."""
    diff = list_diff(cell.code, code, f"cell {cell.number}")
    return [f"For `cell_edit` of cell {cell.number}:", "```diff", *diff, "```"]


def list_diff(before: str, after: str, name: str) -> list[str]:
    """Return the unified diff of a piece of code, as lines."""
    pieces = (before.splitlines(), after.splitlines())
    return list(difflib.unified_diff(*pieces, name, name, n=1, lineterm=""))
