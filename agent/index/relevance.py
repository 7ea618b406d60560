"""Relevance of a repository's files and names to a task's text."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

_PATH = re.compile(r"[\w-]+(?:[./]+[\w-]+)+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CODE = re.compile(r"`([^`\n]+)`|\b(\w+)\(|\b(\w+(?:\.\w+)+)\b")
_UNSPECIFIC = ("__init__", "__main__", "setup", "index")
_MOST_TERMS = 64
_SHORTEST_TERM = 3
_MOST_PARTS = 12
_WEIGHT_OF_CODE = 3
_TERMS_OF_A_NAME = 3  # shared terms at which a definition fits the task fully
# BM25's usual parameters: the saturation of repetition, and the influence of length.
_SATURATION, _LENGTH = 1.2, 0.75

_STOP_WORDS = frozenset(
    _WORD.findall(
        """
    about above after again all also and another any are because been before being below both
    but can cannot class code could def did does doing done each else error even every example
    expected file first following for from function get give had has have here how however
    import instead into issue its just like line make many may method more most must need not
    now off one only other our out over own python raise return same see self should since
    some still such test than that the their them then there these they this those through too
    try two under use used using value very was way were what when where which while who why
    will with without work would yes you your true false none
    """
    )
)


class Relevance:
    """Scores of files and names for one task. Deterministic arithmetic on text."""

    def __init__(self, task: str, texts: Mapping[str, str]) -> None:
        """`texts` are the files of the repository by their paths."""
        self._task = task
        self._names = frozenset(_WORD.findall(task))
        self._marked = frozenset(
            name for match in _CODE.finditer(task) for name in _WORD.findall(match[0])
        )
        self._paths = frozenset(chain.from_iterable(map(_runs, _PATH.findall(task))))
        wanted = self._terms()
        counted = {path: _counted(path, text, wanted) for path, text in texts.items()}
        self._weights = _rarity(wanted, counted.values())
        self._fit = _scaled(_bm25(counted, self._weights))
        self._most = sum(sorted(self._weights.values(), reverse=True)[:_TERMS_OF_A_NAME]) or 1.0

    def of_file(self, path: str) -> float:
        """Return how well a file fits the task, from 0 to 1, plus 1 if the task names the file.

        The score is BM25 over its path and content. A term also counts inside a longer word.
        """
        return self._fit[path] + self._names_path(path)

    def of_name(self, name: str, explanation: str) -> float:
        """Return how well a definition fits the task by its name and explanation.

        Shared words score from 0 to 1, rare ones more. A name that the task contains scores up to 1
        more.
        """
        shared = {*terms(name), *terms(explanation)} & self._weights.keys()
        fit = math.fsum(self._weights[term] for term in shared) / self._most
        return min(1.0, fit) + self._mentions(name)

    def _terms(self) -> list[str]:
        """Return the task's words and the parts of its identifiers.

        For a long text, return only the most frequent ones. Occurrences in code count more.
        """
        counts: dict[str, int] = {}
        for name in _WORD.findall(self._task):
            weight = _WEIGHT_OF_CODE if name in self._marked or is_code_like(name) else 1
            for term in terms(name):
                counts[term] = counts.get(term, 0) + weight
        return sorted(counts, key=lambda term: (-counts[term], term))[:_MOST_TERMS]

    def _names_path(self, path: str) -> bool:
        """Return True if the task contains a file's name or the end of its path or dotted
        module.
        """
        pure = PurePosixPath(path)
        module = pure.with_suffix("").parts
        named = {"/".join(pure.parts[start:]) for start in range(len(pure.parts))}
        named |= {".".join(module[start:]) for start in range(len(module) - 1)}
        if pure.stem in _UNSPECIFIC:
            named.discard(pure.name)
        return not named.isdisjoint(self._paths)

    def _mentions(self, name: str) -> float:
        """Score a mention of the name.

        A word that may be English and is not marked as code scores less.
        """
        if name not in self._names:
            return 0.0
        return 1.0 if name in self._marked or is_code_like(name) else 0.3


def is_code_like(name: str) -> bool:
    """Return True if a name is hardly a natural word: `read_csv`, `DataFrame`, `utf8`."""
    return "_" in name.strip("_") or any(map(str.isdigit, name)) or name[1:].lower() != name[1:]


def terms(name: str) -> list[str]:
    """Return the meaningful parts of an identifier or word, without plural endings."""
    parts = (part.lower() for part in _PART.findall(name))
    return [
        _singular(part) for part in parts if len(part) >= _SHORTEST_TERM and part not in _STOP_WORDS
    ]


def _singular(word: str) -> str:
    is_plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if is_plural and len(word) > _SHORTEST_TERM else word


def _runs(path: str) -> Iterator[str]:
    """Yield every part of a path or dotted name that begins and ends with a name.

    For `a.b.c`, these include `a.b` and `b.c`.
    """
    names = [match.span() for match in re.finditer(r"[\w-]+", path)]
    for index, (start, _) in enumerate(names):
        for _, end in names[index : index + _MOST_PARTS]:
            yield path[start:end]


class _Counted(NamedTuple):
    """The length and the terms of a file, from which its relevance is computed."""

    chars: int
    counts: dict[str, int]
    """The number of occurrences of each term that occurs."""


def _counted(path: str, text: str, wanted: Sequence[str]) -> _Counted:
    lowered = f"{path}\n{text}".lower()
    counts = {term: count for term in wanted if (count := lowered.count(term))}
    return _Counted(len(lowered), counts)


def _rarity(wanted: Sequence[str], files: Collection[_Counted]) -> dict[str, float]:
    """Return BM25's weight of every term that occurs. Rarer terms weigh more."""
    having = {term: sum(term in file.counts for file in files) for term in wanted}
    return {
        term: math.log(1 + (len(files) - count + 0.5) / (count + 0.5))
        for term, count in having.items()
        if count
    }


def _bm25(files: Mapping[str, _Counted], weights: Mapping[str, float]) -> dict[str, float]:
    average = sum(file.chars for file in files.values()) / max(1, len(files))
    scores = {}
    for path, file in files.items():
        damping = _SATURATION * (1 - _LENGTH + _LENGTH * file.chars / average)
        scores[path] = math.fsum(
            weights[term] * count * (_SATURATION + 1) / (count + damping)
            for term, count in file.counts.items()
        )
    return scores


def _scaled(scores: Mapping[str, float]) -> dict[str, float]:
    """Scale the scores so that the best one is 1."""
    best = max(scores.values(), default=0.0) or 1.0
    return {path: score / best for path, score in scores.items()}
