"""The reason of a failed cell: what it used, and the patch that would repair it."""

import ast
import builtins
import difflib
from collections.abc import Iterable

from agent.cells.notebook import Notebook, NotebookCell

_SHOWN_NAMES = 20
_SIMILARITY = 0.75

_MODULES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
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
    statement = ""
    if name in _HOLDERS:
        statement = f"from {_HOLDERS[name]} import {name}"
    elif importable:
        statement = f"import {_MODULES[name]} as {name}" if name in _MODULES else f"import {name}"
    if statement:
        return [f"`{name}` is not imported.", *_patch(place, f"{statement}\n{place.code}")]
    bound = [node.id for node in _names(place.code) if isinstance(node.ctx, ast.Store)]
    candidates = [*notebook.before(cell.number), *dir(builtins), *bound]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=_SIMILARITY)
    if not close:
        return []
    writer = notebook.writer(close[0], cell)
    problem = f"Was `{close[0]}` meant{f', which cell {writer.number} wrote' if writer else ''}?"
    return [problem, *_patch(place, _rename(place.code, name, close[0]))]


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
    before, after = cell.code.splitlines(), code.splitlines()
    name = f"cell {cell.number}"
    diff = difflib.unified_diff(before, after, name, name, n=1, lineterm="")
    return [f"For `cell_edit` of cell {cell.number}:", "```diff", *diff, "```"]
