"""Debug mode: when errors recur, the next step works by root cause."""

import re

SIMILAR = 0.7
"""Jaccard index of words above which two errors count as the same."""

ROOT_CAUSE = """\
The last verifications failed in much the same way; `earlier_errors` holds them. Do not try
another variation of the same change. Work by root cause: reproduce the failure and read where it
begins; isolate the smallest input or call that shows it; write down one hypothesis and what would
disprove it; verify it with a tool before you edit anything.
"""

_VARYING = (
    (re.compile(r"0x[0-9a-fA-F]+"), " "),
    (re.compile(r"(/[\w.+-]+){2,}/"), " "),  # folders; the file's name is enough
    (re.compile(r"\b\d+(\.\d+)?(s|ms)?\b"), " "),
)
_TELLING = re.compile(r"E  |FAILED |ERROR |.*\b(Error|Exception)\b: |.* fails and did not before")
_LINES, _LINE_CHARS = 12, 300
_WORD = re.compile(r"[A-Za-z_]\w+")


def normalise_error(error: str) -> frozenset[str]:
    """Return the words of an error without parts that vary by run: numbers, addresses, folders."""
    for pattern, instead in _VARYING:
        error = pattern.sub(instead, error)
    return frozenset(_WORD.findall(error.lower()))


def similar(one: str, other: str) -> bool:
    """Return True if two errors share at least `SIMILAR` of their words."""
    a, b = normalise_error(one), normalise_error(other)
    return bool(a | b) and len(a & b) / len(a | b) >= SIMILAR


def recall_errors(earlier: list[str], error: str) -> list[str]:
    """Return the last two similar errors: none after a pass, one after a different error."""
    if not error:
        return []
    summary = in_brief(error)
    return [earlier[-1], summary] if earlier and similar(earlier[-1], summary) else [summary]


def in_brief(error: str) -> str:
    """Return the few lines of a test output that name its failures."""
    lines = error.splitlines()
    telling = [line for line in lines if _TELLING.match(line)] or lines
    return "\n".join(line[:_LINE_CHARS] for line in telling[-_LINES:])


def is_stuck(errors: list[str]) -> bool:
    """Return True if the same error recurred."""
    return len(errors) > 1
