"""A map of a repository for one task, within a budget of tokens.

It shows the definitions that matter most according to the task and to how often they are used, by
file. Then it shows the test files, and the number of files that are not shown.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import PurePosixPath

from agent.index.definitions import Definition
from agent.index.relevance import Relevance
from agent.index.symbols import SymbolIndex
from agent.index.undisturbed import undisturbed

_CHARS_PER_TOKEN = 4  # as counted by `agent.models.chat.tokens`

# Maximum shares of the budget for test files and for omitted files. Other files get the rest.
_TESTS_SHARE, _LEFT_OUT_SHARE = 0.2, 0.1
# Share of the test files' room for named ones, if there is no room to name all.
_NAMED_SHARE = 0.6

_SIGNATURE_CHARS, _DOC_CHARS, _PATH_CHARS = 120, 80, 200
_MORE_CHARS = 24  # for the line that counts a file's other definitions
_DEEPEST_FOLDER = 3

# A definition's score is the sum of the first three, times the others that apply.
_WEIGHT_OF_FILE, _WEIGHT_OF_NAME, _WEIGHT_OF_USE = 1.0, 1.5, 0.15
_WEIGHT_OF_KIND = {"class": 1.0, "function": 1.0, "method": 0.8, "variable": 0.4}
_WEIGHT_OF_PRIVATE = 0.6
# Further definitions of a file count ever less, so that no file takes the whole map.
_DECAY = 0.1
# For a file without definitions that is not Python.
_WEIGHT_OF_OTHER_FILE = 0.3

_PYTHON = (".py", ".pyi")
_OVERLOAD = re.compile(r"@(\w+\.)?overload ")

_Showable = Mapping[str, Mapping[str, Definition]]
"""Definitions that can have a line, by path and qualified name."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A possible line of the map: a definition, or a file without definitions."""

    score: float
    path: str
    definition: Definition | None


def draw(texts: Mapping[str, str], index: SymbolIndex, task: str, budget_tokens: int) -> str:
    """Return the map as text, at most `budget_tokens` as estimated by four characters each.

    Args:
        texts: the files of the repository by their paths.
        index: their symbols.
        task: the task that decides what is shown. The map contains none of its text.
    """
    with undisturbed():
        return _draw(texts, index, task, max(0, budget_tokens) * _CHARS_PER_TOKEN)


def _draw(texts: Mapping[str, str], index: SymbolIndex, task: str, room: int) -> str:
    """Return the map, at most `room` characters."""
    relevance = Relevance(task, texts)
    code = sorted(path for path in texts if not index.test_files.owns(path))
    tests = _tests(
        sorted(filter(index.test_files.collects, texts)), relevance, int(room * _TESTS_SHARE)
    )
    showable = {path: _showable(index.defined_in(path)) for path in code}
    drawing = _Drawing(index, showable, room - len(tests) - int(room * _LEFT_OUT_SHARE))
    for entry in _ranked(showable, index, relevance):
        drawing.add(entry)
    files = drawing.text()
    hidden = [path for path in code if path not in drawing.paths]
    left_out = _counted(f"\nNot shown: {len(hidden)} files", hidden, room - len(files) - len(tests))
    return files + tests + left_out


def _ranked(showable: _Showable, index: SymbolIndex, relevance: Relevance) -> list[_Entry]:
    """Return everything that could be shown, the most important first."""
    entries = (
        entry
        for path, definitions in showable.items()
        for entry in _entries(path, definitions.values(), index, relevance)
    )
    return sorted(entries, key=_order)


def _order(entry: _Entry) -> tuple[float, bool, str, int]:
    """Return the sort key: by score, and Python first among equals."""
    line = entry.definition.line if entry.definition else 0
    return -entry.score, not entry.path.endswith(_PYTHON), entry.path, line


def _entries(
    path: str, definitions: Collection[Definition], index: SymbolIndex, relevance: Relevance
) -> list[_Entry]:
    of_file = relevance.of_file(path)
    if not definitions:
        weight = 1.0 if path.endswith(_PYTHON) else _WEIGHT_OF_OTHER_FILE
        return [_Entry(weight * of_file, path, None)]
    scored = [(_score(found, of_file, index, relevance), found) for found in definitions]
    scored.sort(key=lambda pair: (-pair[0], pair[1].line))
    return [
        _Entry(score / (1 + _DECAY * rank), path, definition)
        for rank, (score, definition) in enumerate(scored)
    ]


def _showable(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Return the definitions by name, without the module and those local to a function.

    Each name occurs once: an overloaded function as its implementation, a property as its getter.
    """
    by_name: dict[str, Definition] = {}
    for definition in definitions:
        owner = by_name.get(definition.qualified.rpartition(".")[0])
        is_local = "." in definition.qualified and (owner is None or owner.kind != "class")
        if definition.kind == "module" or is_local:
            continue
        first = by_name.setdefault(definition.qualified, definition)
        if _OVERLOAD.search(first.signature):
            by_name[definition.qualified] = definition
    return by_name


def _score(
    definition: Definition, of_file: float, index: SymbolIndex, relevance: Relevance
) -> float:
    uses = index.use_counts.get((definition.path, definition.qualified), 0)
    score = (
        _WEIGHT_OF_FILE * of_file
        + _WEIGHT_OF_NAME * relevance.of_name(definition.name, definition.doc)
        + _WEIGHT_OF_USE * math.log2(1 + uses)
    )
    is_private = any(part.startswith("_") for part in definition.qualified.split("."))
    return score * _WEIGHT_OF_KIND[definition.kind] * (_WEIGHT_OF_PRIVATE if is_private else 1.0)


class _Drawing:
    """The files of the map, filled one entry at a time."""

    def __init__(self, index: SymbolIndex, showable: _Showable, room: int) -> None:
        self.paths: dict[str, dict[str, Definition]] = {}
        """The shown files, with their shown definitions by qualified name."""
        self._index = index
        self._showable = showable
        self._room = room
        self._headings: dict[str, str] = {}

    def add(self, entry: _Entry) -> None:
        """Show an entry, and the file and classes around it, if there is room for all of it."""
        cost = 0
        if entry.path not in self.paths:
            cost = len(self._heading(entry.path)) + _MORE_CHARS
            if cost > self._room:
                return
        new = self._missing(entry)
        cost += sum(len(_definition_line(definition)) for definition in new)
        if cost <= self._room:
            self._room -= cost
            shown = self.paths.setdefault(entry.path, {})
            shown |= {definition.qualified: definition for definition in new}

    def text(self) -> str:
        """Return the files in the order of addition, with their definitions by line."""
        return "".join(chain.from_iterable(self._lines(path) for path in self.paths))

    def _missing(self, entry: _Entry) -> list[Definition]:
        """Return the definitions that an entry requires and that are not shown yet."""
        if entry.definition is None:
            return []
        shown = self.paths.get(entry.path, {})
        if "." not in entry.definition.qualified:
            return [] if entry.definition.qualified in shown else [entry.definition]
        *outer, _ = accumulate(entry.definition.qualified.split("."), "{}.{}".format)
        around = [self._showable[entry.path][name] for name in outer]
        return [found for found in (*around, entry.definition) if found.qualified not in shown]

    def _lines(self, path: str) -> Iterator[str]:
        shown = self.paths[path].values()
        yield self._heading(path)
        for definition in sorted(shown, key=lambda definition: definition.line):
            yield _definition_line(definition)
        hidden = len(self._showable[path]) - len(shown)
        if hidden:
            yield f"      … {hidden} more\n"

    def _heading(self, path: str) -> str:
        if path not in self._headings:
            self._headings[path] = self._new_heading(path)
        return self._headings[path]

    def _new_heading(self, path: str) -> str:
        if reason := self._index.unparsed(path):
            about = f"does not parse, {reason}"
        else:
            about = next((found.doc for found in self._index.defined_in(path)), "")
        return (
            _short(path, _PATH_CHARS) + (f": {_short(about, _DOC_CHARS)}" if about else "") + "\n"
        )


def _definition_line(definition: Definition) -> str:
    indent = "  " * definition.qualified.count(".")
    doc = f"  # {_short(definition.doc, _DOC_CHARS)}" if definition.doc else ""
    return f"{definition.line:6} {indent}{_short(definition.signature, _SIGNATURE_CHARS)}{doc}\n"


def _short(text: str, limit: int) -> str:
    """Shorten a text to one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _tests(paths: Sequence[str], relevance: Relevance, room: int) -> str:
    """Return all test files by name, or the most relevant ones and the others by folder."""
    if not paths:
        return ""
    heading = f"\nTests: {len(paths)} files"
    ranked = sorted(paths, key=lambda path: (-relevance.of_file(path), path))
    named = "".join(f"{_short(path, _PATH_CHARS)}\n" for path in ranked)
    if len(heading) + 1 + len(named) <= room:
        return f"{heading}\n{named}"
    best: list[str] = []
    used = len(heading) + 1
    for path in ranked:
        used += len(path) + 1
        if used > room * _NAMED_SHARE:
            break
        best.append(f"{path}\n")
    if not best:
        return _counted(heading, paths, room)
    first = f"{heading}\n{''.join(best)}"
    others = ranked[len(best) :]
    return first + _counted(f"and {len(others)} more", others, room - len(first))


def _counted(heading: str, paths: Sequence[str], room: int) -> str:
    """Return a heading and the names of files, or else their counts by folder.

    Folders are as deep as there is room for.
    """
    if not paths or len(heading) + 1 > room:
        return ""
    names = ", ".join(_short(path, _PATH_CHARS) for path in sorted(paths))
    by_folder = (_folder_counts(paths, depth) for depth in range(_DEEPEST_FOLDER, 0, -1))
    lines = (f"{heading}: {listed}\n" for listed in (names, *by_folder))
    return next((line for line in lines if len(line) <= room), f"{heading}\n")


def _folder_counts(paths: Iterable[str], depth: int) -> str:
    counts = Counter(_folder(path, depth) for path in paths)
    return ", ".join(f"{folder} {count}" for folder, count in sorted(counts.items()))


def _folder(path: str, depth: int) -> str:
    folders = PurePosixPath(path).parts[:-1]
    return _short("/".join(folders[:depth]), _PATH_CHARS) + "/" if folders else "./"
