"""Parse the cells of published tables: names, verdicts, amounts, counts and outcomes.

A cell may be of any type that a file can hold. Each function returns its value, or raises a
ValueError that says what the cell must be.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from eval.types import EvaluationOutcome

UNKNOWN = {"", "-", "\N{EN DASH}", "?", "na", "n/a", "#n/a", "nan", "none", "null", "unknown"}
"""Texts that mean an unknown value."""

MOST = 10**12
"""Upper limit of amounts and counts; larger ones are mistakes."""

MOST_REPEATS = 100
"""Upper limit of the number of a repeat, as in an experiment."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would end a line of a table, or command a terminal."""

BLANKS = "\ufeff\u200b"
"""Invisible characters that Python's `strip` does not remove."""


class Ending(NamedTuple):
    """The end of an attempt of a published table."""

    attempt: str
    """An outcome of the table `attempts`; `unknown` if the table does not say how it ended."""
    graded: EvaluationOutcome | None
    """None if there is no verdict."""


_UNGRADED = ("infrastructure", "refused", "budget_stop", "interrupted", "waiting")
_WITHOUT_SUBMISSION = ("gave_up", "out_of_steps", "out_of_budget", "out_of_time")
_OF_GRADING: Mapping[str, EvaluationOutcome] = {
    "resolved": "resolved",
    "unresolved": "unresolved",
    "patch_failed": "patch_failed",
    "timeout": "timeout",
}
_SPELLINGS = {
    "limitsexceeded": "out_of_budget",
    "timeexceeded": "out_of_time",
    "empty_patch": "no_patch",
    "error": "infrastructure",
}
"""Other names of outcomes: those of mini-swe-agent and of swebench."""

OUTCOMES = ("submitted", *_WITHOUT_SUBMISSION, "no_patch", *_OF_GRADING, *_UNGRADED)


UNGRADED = Ending("unknown", None)
"""The end of an attempt without a verdict, and without a reason for none."""


def ending(resolved: bool | None, outcome: str | None) -> Ending | None:
    """Return how an attempt ended; None if the table has neither a verdict nor an outcome.

    Raises:
        ValueError: verdict and outcome contradict each other.
    """
    if outcome is not None and outcome in _OF_GRADING:
        graded = _OF_GRADING[outcome]
        if resolved is not None and resolved != (graded == "resolved"):
            raise ValueError(f"resolved is {str(resolved).lower()}, and outcome {outcome}")
        return Ending("submitted", graded)
    if outcome is not None and (outcome == "no_patch" or outcome in _UNGRADED):
        if resolved:
            raise ValueError(f"resolved is true, and outcome {outcome}")
        return Ending("submitted" if outcome == "no_patch" else outcome, None)
    if resolved is None:
        if outcome and outcome in _WITHOUT_SUBMISSION:
            return Ending(outcome, None)
        return UNGRADED if outcome else None
    return Ending(outcome or "unknown", "resolved" if resolved else "unresolved")


def name(value: Any) -> str:
    """Return a name as one line of text without surrounding blanks.

    Whole numbers are accepted.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    whole = _whole(value) if isinstance(value, Decimal) else value
    if isinstance(whole, int) and not isinstance(whole, bool):
        value = str(whole)
    if not isinstance(value, str) or not bare(value) or not _is_storable(value):
        raise _refusal("must be text", value)
    return bare(value)


def optional_name(value: Any) -> str | None:
    """Return a name; None if it is missing."""
    if number(value) is None:
        return None
    return name(value)


def truth(value: Any) -> bool | None:
    """Return a verdict; None if it is missing."""
    found = number(value)
    if found is None:
        return None
    if isinstance(found, str) and found.lower() in ("true", "false"):
        return found.lower() == "true"
    if isinstance(found, str) or found not in (0, 1):
        raise _refusal("must be true, false, 1 or 0", found)
    return bool(found)


def outcome(value: Any) -> str | None:
    """Return how an attempt ended, in any case and with any separator; None if it is missing."""
    found = number(value)
    if found is None:
        return None
    folded = re.sub(r"[^a-z]+", "_", str(found).lower()).strip("_")
    folded = _SPELLINGS.get(folded, folded)
    if folded not in OUTCOMES:
        raise _refusal("must be an outcome", found, f"; known: {', '.join(OUTCOMES)}")
    return folded


def cost(value: Any) -> float | None:
    """Return a cost; None if it is missing. pandas writes a missing cost as NaN."""
    return _amount(value, " (US dollars, as 0.25, below a trillion)")


def seconds(value: Any) -> float | None:
    """Return a duration; None if it is missing."""
    return _amount(value, " (seconds)")


def count(value: Any) -> int | None:
    """Return a whole number; None if it is missing."""
    found = number(value)
    if found is None:
        return None
    if isinstance(found, str | bool) or not 0 <= found < MOST or found != found // 1:
        raise _refusal("must be a whole number between 0 and a trillion", found)
    return int(found)


def repeat(value: Any) -> int:
    """Return the number of a repeat."""
    found = count(value)
    if found is None or found > MOST_REPEATS:
        raise _refusal(f"must be a whole number of at most {MOST_REPEATS}", number(value))
    return found


def number(value: Any) -> int | float | bool | str | None:
    """Return a cell as a number or truth value; None if unknown, its text if it is neither."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        value = bare(value)
        return None if value.lower() in UNKNOWN else _parsed(value)
    if hasattr(value, "item"):  # numpy scalars, from half floats
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, Decimal):
        whole = _whole(value)
        return float(value) if whole is None else whole
    return value if isinstance(value, int | float) else repr(value)


def _whole(value: Decimal) -> int | None:
    """Return a whole number as an integer; None for any other. Division fails beyond 28 digits."""
    return int(value) if value == value.to_integral_value() else None


def bare(text: str) -> str:
    """Return the text without surrounding blanks."""
    while (found := text.strip().strip(BLANKS)) != text:
        text = found
    return text


def _amount(value: Any, hint: str) -> float | None:
    found = number(value)
    if found is None:
        return None
    if isinstance(found, str | bool) or not 0 <= found < MOST:
        shown = found if isinstance(found, str | bool) else float(found)
        raise _refusal("must be an amount of at least 0", shown, hint)
    return abs(float(found))


def _is_storable(text: str) -> bool:
    try:
        return not _CONTROLS.search(text) and bool(text.encode())
    except UnicodeEncodeError:
        return False


def _parsed(text: str) -> int | float | str:
    if "_" in text:  # Python's own digit grouping is not a number in a table
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _refusal(what: str, value: object, hint: str = "") -> ValueError:
    shown = repr(value)
    return ValueError(f"{what}, not {shown if len(shown) <= 100 else shown[:97] + '...'}{hint}")
