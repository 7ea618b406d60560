"""Debug mode: when errors come back, the next step works by root cause."""

import re

SIMILAR = 0.7
"""Word Jaccard index from which two errors count as the same trouble."""

ROOT_CAUSE = """\
The last verifications failed in much the same way; `earlier_errors` holds them. Do not try
another variation of the same change. Work by root cause: reproduce the failure and read where it
begins; isolate the smallest input or call that shows it; write down one hypothesis and what would
disprove it; verify it with a tool before you edit anything.
"""

_VARYING = (
    (re.compile(r"0x[0-9a-fA-F]+"), " "),
    (re.compile(r"(/[\w.+-]+){2,}/"), " "),  # folders; the file's name says enough
    (re.compile(r"\b\d+(\.\d+)?(s|ms)?\b"), " "),
)
_WORD = re.compile(r"[A-Za-z_]\w+")


def normalised(error: str) -> frozenset[str]:
    """The words of an error without what differs from run to run: numbers, addresses, folders."""
    for pattern, instead in _VARYING:
        error = pattern.sub(instead, error)
    return frozenset(_WORD.findall(error.lower()))


def similar(one: str, other: str) -> bool:
    """Whether two errors share at least `SIMILAR` of their words."""
    a, b = normalised(one), normalised(other)
    return bool(a | b) and len(a & b) / len(a | b) >= SIMILAR


def remembered(earlier: list[str], error: str) -> list[str]:
    """The errors of the trouble at hand: none after a pass, one after a different error."""
    if not error:
        return []
    return [*earlier, error] if earlier and similar(earlier[-1], error) else [error]


def is_stuck(errors: list[str]) -> bool:
    """Whether the same trouble came back."""
    return len(errors) > 1
