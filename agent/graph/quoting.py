"""Quotations of earlier results in a text: both have the same words in a row."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

WORDS = 4
"""Words in a row that count as quoted. Of a shorter text, all words do."""

_SHORTEST_CHARS = 8
"""A shorter text, such as a verdict or a number, can come from anywhere."""

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r'\\[nrt"\\/]')

Run = tuple[str, ...]
"""Words in a row."""


class Quotations:
    """The words of an attempt's results, each with the steps that left them."""

    def __init__(self) -> None:
        self._sources: dict[Run, list[str]] = {}
        self._given: set[Run] = set()
        """Words that a request had before any result, such as the words of the task."""
        self._lengths = {WORDS}

    def find_sources(self, request: Any, may_know: Callable[[str], bool]) -> set[str]:
        """Return the steps that a request in JSON quotes, among the steps that it `may_know`.

        Words that several steps left are quoted from a step that the request quotes anyway, or else
        from the last step, which has them from an earlier one or from the same file.
        """
        found: set[str] = set()
        ambiguous: list[list[str]] = []
        for words in map(_split, _texts(request)):
            for length in self._lengths:
                for run in _runs(words, length):
                    if run in self._given:
                        continue
                    known = [*filter(may_know, self._sources.get(run, ()))]
                    if len(known) == 1:
                        found.add(known[0])
                    elif known:
                        ambiguous.append(known)
                    elif length == WORDS:
                        self._given.add(run)
        for known in ambiguous:
            if found.isdisjoint(known):
                found.add(known[-1])
        return found

    def add(self, step: str, result: Any, *, echoes: Any = None) -> None:
        """Add the result of a step in JSON, without the words of a request that it `echoes`."""
        left = set(_runs_of(result)) - self._given
        if echoes is not None:
            left -= set(_runs_of(echoes))
        for run in left:
            self._sources.setdefault(run, []).append(step)
            self._lengths.add(len(run))


def _runs_of(value: Any) -> Iterator[Run]:
    for text in _texts(value):
        words = _split(text)
        if len(words) >= WORDS or (" " in text and len(text) >= _SHORTEST_CHARS):
            yield from _runs(words, min(WORDS, len(words)))


def _runs(words: list[str], length: int) -> Iterator[Run]:
    return zip(*(words[at:] for at in range(length)), strict=False)


def _split(text: str) -> list[str]:
    return _WORD.findall(_ESCAPE.sub(" ", text))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, also in JSON that is written as a text, as arguments are."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            value = json.loads(value)
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from _texts(item)
