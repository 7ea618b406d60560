"""Globs of JavaScript's test runners, matched in bounded time.

They are text of strangers, so alternatives are written out up to a number, and `**` is followed
without trying every way to match it.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

MAX_PATTERN = 200
"""Characters of a pattern; a longer one matches nothing."""

_MAX_ALTERNATIVES = 128


def plain_globs(patterns: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return globs as lists of folders, with every alternative separately."""
    plain = (glob for pattern in patterns for glob in _list_alternatives(pattern))
    return tuple(dict.fromkeys(tuple(glob.split("/")) for glob in plain))


def _list_alternatives(pattern: str) -> list[str]:
    """Expand the alternatives of a glob. Return none if there are too many.

    `{a,b}` and `@(a|b)` mean one of the parts, `?(a|b)` and `*(a|b)` also nothing, `+(a|b)` one.
    """
    done: list[str] = []
    waiting = [pattern] if len(pattern) <= MAX_PATTERN else []
    while waiting:
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            return []
        glob = waiting.pop()
        group = _INNERMOST.search(glob)
        if group is None:
            done.append(glob)
            continue
        braces, kind, inside = group[1], group[2], group[3]
        parts = braces.split(",") if braces is not None else inside.split("|")
        if kind in ("?", "*"):
            parts.append("")
        waiting += [f"{glob[: group.start()]}{part}{glob[group.end() :]}" for part in parts]
    return done


_INNERMOST = re.compile(r"\{([^{}()]*)\}|([?*+@])\(([^{}()]*)\)")


def matches(path: str, pattern: tuple[str, ...]) -> bool:
    """Return True if a glob matches a path as a whole; `**` stands for any number of folders."""
    reached = {0}
    for part in path.split("/"):
        reached = _skip_double_stars(reached, pattern)
        following = set()
        for place in reached:
            if place == len(pattern):
                continue
            if pattern[place] == "**":
                following.add(place)
            elif fnmatchcase(part, pattern[place]):
                following.add(place + 1)
        reached = following
    return len(pattern) in _skip_double_stars(reached, pattern)


def _skip_double_stars(places: set[int], pattern: tuple[str, ...]) -> set[int]:
    """Return the places with those behind a `**`, which can stand for nothing."""
    reached = set(places)
    for place in places:
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            reached.add(place)
    return reached
