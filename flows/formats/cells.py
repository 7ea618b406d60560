"""The columns of published tables: what each kind may be called, and what its cells may hold.

A cell may be of any type that a file can hold. Each parser returns its value, or None if it is
missing, and raises a ValueError that says what the cell must be.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from eval.types import EvaluationOutcome
from flows.display.errors import UsageError

UNKNOWN = {"", "-", "\N{EN DASH}", "?", "na", "n/a", "#n/a", "nan", "none", "null", "unknown"}
"""Texts that mean an unknown value."""

MOST = 10**12
"""Upper limit of amounts and counts; larger ones are mistakes."""

MOST_REPEATS = 100
"""Upper limit of the number of a repeat, as in an experiment."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would end a line of a table, or command a terminal."""

_HALVES = re.compile(r"[\ud800-\udfff\ufffd]")
"""Characters that stand for bytes that are not text."""

_BLANKS = "\ufeff\u200b"
"""Invisible characters that Python's `strip` does not remove."""


class Ending(NamedTuple):
    """The end of an attempt of a published table."""

    attempt: str
    """An outcome of the table `attempts`; `unknown` if the table does not say how it ended."""
    graded: EvaluationOutcome | None
    """None if there is no verdict."""


UNGRADED = Ending("unknown", None)
"""The end of an attempt without a verdict, and without a reason for none."""

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


def find_ending(resolved: bool | None, outcome: str | None) -> Ending | None:
    """Return how an attempt ended; None if the table has neither a verdict nor an outcome.

    Raises:
        ValueError: verdict and outcome contradict each other.
    """
    graded = _OF_GRADING.get(outcome or "")
    is_without = outcome == "no_patch" or outcome in _UNGRADED
    if (is_without and resolved) or (graded and resolved not in (None, graded == "resolved")):
        raise ValueError(f"resolved is {str(resolved).lower()}, and outcome {outcome}")
    if graded:
        return Ending("submitted", graded)
    if outcome and is_without:
        return Ending("submitted" if outcome == "no_patch" else outcome, None)
    if resolved is not None:
        return Ending(outcome or "unknown", "resolved" if resolved else "unresolved")
    if outcome and outcome in _WITHOUT_SUBMISSION:
        return Ending(outcome, None)
    return UNGRADED if outcome else None


def strip(text: str) -> str:
    """Return the text without surrounding blanks."""
    while (found := text.strip().strip(_BLANKS)) != text:
        text = found
    return text


def _name(value: Any) -> str:
    """Return a name as one line of text. Whole numbers are accepted."""
    text = value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        text = str(int(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    elif isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    text = strip(text) if isinstance(text, str) else ""
    if not text or _CONTROLS.search(text) or _HALVES.search(text):
        raise _refusal("must be text", value)
    return text


def _optional_name(value: Any) -> str | None:
    return None if _number(value) is None else _name(value)


def _truth(value: Any) -> bool | None:
    found = _number(value)
    if isinstance(found, str) and found.lower() in ("true", "false"):
        return found.lower() == "true"
    if found is not None and (isinstance(found, str) or found not in (0, 1)):
        raise _refusal("must be true, false, 1 or 0", found)
    return None if found is None else bool(found)


def _outcome(value: Any) -> str | None:
    """Return how an attempt ended, in any case and with any separator."""
    found = _number(value)
    if found is None:
        return None
    folded = re.sub(r"[^a-z]+", "_", str(found).lower()).strip("_")
    folded = _SPELLINGS.get(folded, folded)
    if folded not in OUTCOMES:
        raise _refusal("must be an outcome", found, f"; known: {', '.join(OUTCOMES)}")
    return folded


def _cost(value: Any) -> float | None:
    return _amount(value, " (US dollars, as 0.25, below a trillion)")


def _seconds(value: Any) -> float | None:
    return _amount(value, " (seconds)")


def _amount(value: Any, hint: str) -> float | None:
    found = _number(value)
    if found is None:
        return None
    if isinstance(found, str | bool) or not 0 <= found < MOST:
        shown = found if isinstance(found, str | bool) else float(found)
        raise _refusal("must be an amount of at least 0", shown, hint)
    return abs(float(found))


def _count(value: Any) -> int | None:
    found = _number(value)
    if found is None:
        return None
    if isinstance(found, str | bool) or not 0 <= found < MOST or found != found // 1:
        raise _refusal("must be a whole number between 0 and a trillion", found)
    return int(found)


def _repeat(value: Any) -> int:
    found = _count(value)
    if found is None or found > MOST_REPEATS:
        raise _refusal(f"must be a whole number of at most {MOST_REPEATS}", _number(value))
    return found


def _number(value: Any) -> int | float | bool | str | None:
    """Return a cell as a number or truth value; None if unknown, its text if it is neither."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        value = strip(value)
        return None if value.lower() in UNKNOWN else _parsed(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, int | float) else repr(value)


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


class Kind(NamedTuple):
    """One kind of column."""

    usual: tuple[str, ...]
    """Usual names, by priority."""
    parse: Callable[[Any], Any]
    meaning: str = ""
    """Meaning of a required column, for an error message."""


KINDS: Mapping[str, Kind] = {
    "instance": Kind(
        ("instance_id", "instance", "task_id"), _name, "which instance a row is about"
    ),
    "arm": Kind(("arm", "model", "agent", "system"), _name, "which arm a row is of"),
    "resolved": Kind(
        ("resolved", "is_resolved", "success", "passed"), _truth, "whether an instance was resolved"
    ),
    "cost": Kind(("cost_usd", "cost", "usd", "instance_cost"), _cost),
    "calls": Kind(("api_calls", "model_calls", "calls", "n_calls"), _count),
    "repeat": Kind(("repeat",), _repeat),
    "outcome": Kind(("outcome",), _outcome),
    "duration": Kind(("duration_s", "duration"), _seconds),
    "repo": Kind(("repo", "repository"), _optional_name),
    "difficulty": Kind(("difficulty",), _optional_name),
    "model": Kind(("model",), _optional_name),
    "harness": Kind(("harness", "agent", "scaffold"), _optional_name),
    "input_tokens": Kind(("input_tokens", "prompt_tokens"), _count),
    "cache_read_tokens": Kind(("cache_read_tokens", "cached_tokens"), _count),
    "cache_write_tokens": Kind(("cache_write_tokens",), _count),
    "output_tokens": Kind(("output_tokens", "completion_tokens"), _count),
    "reasoning_tokens": Kind(("reasoning_tokens",), _count),
}

AMOUNTS = {"cost", "calls", "duration", *(kind for kind in KINDS if kind.endswith("_tokens"))}
"""Kinds of columns of which a number above 0 means that an attempt was made."""

NAMES = {"instance", "arm", "model", "harness"}
"""Kinds whose usual names may be columns of different things, of which the first one counts."""

REQUIRED = ("instance", "resolved")


def read_columns(given: Sequence[str]) -> dict[str, str]:
    """Return names of columns by kind, from texts of the form KIND=NAME.

    Raises:
        UsageError: a text has another form, or its kind is unknown or occurs twice.
    """
    found: dict[str, str] = {}
    for text in given:
        kind, is_pair, name = text.partition("=")
        if not is_pair or not name.strip() or kind not in KINDS:
            raise UsageError(f"--column {text!r}: write KIND=NAME, with one of {', '.join(KINDS)}")
        if kind in found:
            raise UsageError(f"--column has {kind} twice: name one column of each kind")
        found[kind] = name
    return found
