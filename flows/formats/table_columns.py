"""The columns of published tables: the names of each kind, and the values of its cells.

Cells are text, which macros of SQL turn into values. An unusable text becomes null.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flows.display.errors import UsageError

UNKNOWN = ("", "-", "\N{EN DASH}", "?", "na", "n/a", "#n/a", "nan", "none", "null", "unknown")
"""Texts that mean an unknown value."""

MOST = 10**12
"""Upper limit of amounts and counts; larger ones are mistakes."""

MOST_REPEATS = 100
"""Upper limit of the number of a repeat, as in an experiment."""

UNGRADED = ("infrastructure", "refused", "budget_stop", "interrupted", "waiting")
WITHOUT_SUBMISSION = ("gave_up", "out_of_steps", "out_of_budget", "out_of_time")
VERDICTS = ("resolved", "unresolved", "patch_failed", "timeout")
OUTCOMES = ("submitted", *WITHOUT_SUBMISSION, "no_patch", *VERDICTS, *UNGRADED)

YES = ("true", "yes", "y", "pass", "passed", "resolved", "solved", "\N{WHITE HEAVY CHECK MARK}")
NO = ("false", "no", "n", "fail", "failed", "unresolved", "unsolved", "\N{CROSS MARK}")

_BLANKS = r"[\s\pZ\x{85}\x{feff}\x{200b}]+"
"""Blanks of every script, and characters that do not show."""

MACROS = rf"""
create temp macro bare(t) as regexp_replace(t, '^{_BLANKS}|{_BLANKS}$', '', 'g');
create temp macro known(t) as case when lower(bare(t)) not in {UNKNOWN} then bare(t) end;
create temp macro number(t) as try_cast(case when not contains(t, '_') then known(t) end as double);
create temp macro amount(t) as
    case when number(t) >= 0 and number(t) < {MOST} then abs(number(t)) end;
create temp macro whole(t) as case when amount(t) = floor(amount(t)) then amount(t)::bigint end;
create temp macro repeat_number(t) as case when whole(t) <= {MOST_REPEATS} then whole(t) end;
create temp macro truth(t) as case
    when lower(known(t)) in {YES + NO} then lower(known(t)) in {YES}
    when number(t) in (0, 1) then number(t) = 1
end;
create temp macro name(t) as
    case when bare(t) <> '' and not regexp_matches(bare(t), '[\x00-\x1f\x7f-\x{{9f}}\x{{fffd}}]')
    then bare(t) end;
create temp macro optional_name(t) as name(known(t));
create temp macro spelled(t) as trim(regexp_replace(lower(known(t)), '[^a-z]+', '_', 'g'), '_');
create temp macro outcome(t) as case
    when spelled(t) = 'limitsexceeded' then 'out_of_budget'
    when spelled(t) = 'timeexceeded' then 'out_of_time'
    when spelled(t) = 'empty_patch' then 'no_patch'
    when spelled(t) = 'error' then 'infrastructure'
    when spelled(t) in {OUTCOMES} then spelled(t)
end;
"""


class Kind(NamedTuple):
    """One kind of column."""

    usual: tuple[str, ...]
    """Usual names, by priority."""
    macro: str
    must: str
    """The rule for a cell, with a placeholder for a bad value."""
    meaning: str = ""
    """Meaning of a required column, for an error message."""


_COST = "must be an amount of at least 0, not {} (US dollars, as 0.25, below a trillion)"
_SECONDS = "must be an amount of at least 0, not {} (seconds)"
_WHOLE = "must be a whole number between 0 and a trillion, not {}"
_TEXT = "must be text, not {}"

KINDS: Mapping[str, Kind] = {
    "instance": Kind(
        ("instance_id", "instance", "task_id", "task"),
        "name",
        _TEXT,
        "which instance a row is about",
    ),
    "arm": Kind(("arm", "model", "agent", "system"), "name", _TEXT, "which arm a row is of"),
    "resolved": Kind(
        ("resolved", "is_resolved", "solved", "success", "passed", "verdict", "result", "status"),
        "truth",
        "must be true, false, yes, no, pass, fail, 1 or 0, or empty if unknown, not {}",
        "whether an instance was resolved",
    ),
    "cost": Kind(("cost_usd", "cost", "usd", "instance_cost"), "amount", _COST),
    "calls": Kind(("api_calls", "model_calls", "calls", "n_calls"), "whole", _WHOLE),
    "repeat": Kind(
        ("repeat",), "repeat_number", f"must be a whole number of at most {MOST_REPEATS}, not {{}}"
    ),
    "outcome": Kind(
        ("outcome",), "outcome", f"must be an outcome, not {{}}; known: {', '.join(OUTCOMES)}"
    ),
    "duration": Kind(("duration_s", "duration"), "amount", _SECONDS),
    "repo": Kind(("repo", "repository"), "optional_name", _TEXT),
    "difficulty": Kind(("difficulty",), "optional_name", _TEXT),
    "model": Kind(("model",), "optional_name", _TEXT),
    "harness": Kind(("harness", "agent", "scaffold"), "optional_name", _TEXT),
    "input_tokens": Kind(("input_tokens", "prompt_tokens"), "whole", _WHOLE),
    "cache_read_tokens": Kind(("cache_read_tokens", "cached_tokens"), "whole", _WHOLE),
    "cache_write_tokens": Kind(("cache_write_tokens",), "whole", _WHOLE),
    "output_tokens": Kind(("output_tokens", "completion_tokens"), "whole", _WHOLE),
    "reasoning_tokens": Kind(("reasoning_tokens",), "whole", _WHOLE),
}

NAMES = {"instance", "arm", "model", "harness"}
"""Kinds whose usual names can be columns of different things. The first column counts."""

REQUIRED = ("instance", "resolved")

FILLED = {"instance", "arm", "repeat"}
"""Kinds that need a value in every cell."""


def read_columns(options: Sequence[str]) -> dict[str, str]:
    """Return names of columns by kind, from texts of the form KIND=NAME.

    Raises:
        UsageError: a text has another form, or its kind is unknown or occurs twice.
    """
    columns: dict[str, str] = {}
    for text in options:
        kind, is_pair, name = text.partition("=")
        if not is_pair or not name.strip() or kind not in KINDS:
            raise UsageError(f"--column {text!r}: write KIND=NAME, with one of {', '.join(KINDS)}")
        if kind in columns:
            raise UsageError(f"--column has {kind} twice: name one column of each kind")
        columns[kind] = name
    return columns
