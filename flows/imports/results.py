"""Read the columns of a published table, each kind of column with its own parser."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from flows.errors import UsageError
from flows.imports import values
from flows.imports.sheets import Sheet
from flows.imports.values import Ending


@dataclass(frozen=True)
class Columns:
    """Column names, case-insensitive. None looks for a usual name."""

    instance: str | None = None
    arm: str | None = None
    resolved: str | None = None
    cost: str | None = None
    calls: str | None = None
    repeat: str | None = None
    outcome: str | None = None
    duration: str | None = None
    repo: str | None = None
    difficulty: str | None = None
    model: str | None = None
    harness: str | None = None


class Kind(NamedTuple):
    """One kind of column."""

    usual: tuple[str, ...]
    """Usual names, by priority."""
    parse: Callable[[Any], Any]
    meaning: str = ""
    """Meaning of a required column, for an error message."""


KINDS: Mapping[str, Kind] = {
    "instance": Kind(
        ("instance_id", "instance", "task_id"), values.name, "which instance a row is about"
    ),
    "arm": Kind(("arm", "model", "agent", "system"), values.name, "which arm a row is of"),
    "resolved": Kind(
        ("resolved", "is_resolved", "success", "passed"),
        values.truth,
        "whether an instance was resolved",
    ),
    "cost": Kind(("cost_usd", "cost", "usd", "instance_cost"), values.cost, "what an attempt cost"),
    "calls": Kind(
        ("api_calls", "model_calls", "calls", "n_calls"),
        values.count,
        "how many model calls an attempt made",
    ),
    "repeat": Kind(("repeat",), values.repeat, "which attempt at an instance a row is"),
    "outcome": Kind(("outcome",), values.outcome, "how an attempt ended"),
    "duration": Kind(("duration_s", "duration"), values.seconds, "how long an attempt took"),
    "repo": Kind(("repo", "repository"), values.optional_name, "the repository of an instance"),
    "difficulty": Kind(("difficulty",), values.optional_name, "how difficult an instance is"),
    "model": Kind(("model",), values.optional_name, "the model of an arm"),
    "harness": Kind(
        ("harness", "agent", "scaffold"), values.optional_name, "the harness of an arm"
    ),
    "input_tokens": Kind(("input_tokens", "prompt_tokens"), values.count),
    "cache_read_tokens": Kind(("cache_read_tokens", "cached_tokens"), values.count),
    "cache_write_tokens": Kind(("cache_write_tokens",), values.count),
    "output_tokens": Kind(("output_tokens", "completion_tokens"), values.count),
    "reasoning_tokens": Kind(("reasoning_tokens",), values.count),
}

AMOUNTS = {"cost", "calls", "duration", *(kind for kind in KINDS if kind.endswith("_tokens"))}
"""Kinds of columns of which a number above 0 means that an attempt was made."""

NAMES = {"instance", "arm", "model", "harness"}
"""Kinds whose usual names may be columns of different things, of which the first one counts."""

REQUIRED = ("instance", "resolved")


@dataclass(frozen=True)
class Results:
    """The rows of a table, by column. All lists have the same length."""

    labels: list[str]
    """Name of the arm in the table."""
    instances: list[str]
    repeats: list[int]
    endings: list[Ending | None]
    """None if the table has neither a verdict nor an outcome nor an amount above 0: the cell counts
    as never run."""
    other: Mapping[str, list[Any]]
    """The optional columns by kind."""
    blanks: Mapping[str, int]
    """Number of names with surrounding blanks, by what they name."""


def read(path: Path, sheet: Sheet, columns: Columns) -> Results:
    """Parse the columns of a table."""
    if not sheet.rows:
        return Results([], [], [], [], {}, {})
    found: dict[str, list[Any]] = {}
    blanks: dict[str, int] = {}
    positions = _positions_by_kind(path, sheet, columns)
    for kind, position in positions.items():
        cells = sheet.column(position)
        found[kind] = _parsed(path, sheet.names[position], cells, KINDS[kind].parse)
        if kind not in NAMES and not getattr(columns, kind, None):
            _check_others(path, sheet, kind, position, found[kind])
        if kind in ("arm", "instance"):
            blanks[kind] = sum(
                isinstance(cell, str) and cell != name
                for cell, name in zip(cells, found[kind], strict=True)
            )
    labels = found.pop("arm", None) or [
        " · ".join(filter(None, parts)) or "unnamed"
        for parts in zip(found["harness"], found["model"], strict=True)
    ]
    instances, repeats = found.pop("instance"), found.pop("repeat", [0] * sheet.rows)
    endings = _endings(path, found.pop("resolved"), found.pop("outcome", None))
    return Results(
        labels, instances, _from_zero(repeats), _with_ungraded(endings, found), found, blanks
    )


def _with_ungraded(
    endings: list[Ending | None], found: Mapping[str, list[Any]]
) -> list[Ending | None]:
    """Replace what has no end but an amount above 0, such as a cost: it ran and was not graded."""
    amounts = [column for kind, column in found.items() if kind in AMOUNTS]
    return [
        values.UNGRADED if ended is None and any(column[row] for column in amounts) else ended
        for row, ended in enumerate(endings)
    ]


def _check_others(path: Path, sheet: Sheet, kind: str, position: int, found: Sequence[Any]) -> None:
    """Check that the other columns with a usual name of a kind do not contradict the found one.

    Raises:
        UsageError: one does.
    """
    usual = {name.casefold() for name in KINDS[kind].usual}
    for other, name in enumerate(sheet.names):
        if other == position or name.casefold() not in usual:
            continue
        try:
            cells = _parsed(path, name, sheet.column(other), KINDS[kind].parse)
        except UsageError:  # a column of something else
            continue
        for row, pair in enumerate(zip(found, cells, strict=True), 1):
            if None not in pair and pair[0] != pair[1]:
                raise UsageError(
                    f"{path}, row {row}: {sheet.names[position]} and {name} contradict each other "
                    f"({pair[0]} and {pair[1]}); remove or rename one of the two columns"
                )


def _positions_by_kind(path: Path, sheet: Sheet, columns: Columns) -> dict[str, int]:
    """Return the position of each kind of column that the table has.

    A table with a model and a harness, and no name for the arm, has an arm for each of their
    combinations. A column of models may name the arms as well.
    """
    named = {field.name: getattr(columns, field.name) for field in fields(columns)}
    found = {}
    for kind in KINDS:
        if kind != "arm" and (named.get(kind) or _usual(sheet, kind) or kind in REQUIRED):
            found[kind] = _column(path, sheet, named.get(kind), kind)
    has_name = bool(named["arm"] or _positions(sheet, KINDS["arm"].usual[0]))
    if has_name or not {"model", "harness"} <= found.keys():
        found["arm"] = _column(path, sheet, named["arm"], "arm")
        if found.get("harness") == found["arm"]:
            del found["harness"]
    return found


def _parsed(path: Path, name: str, cells: Sequence[Any], parse: Callable[[Any], Any]) -> list[Any]:
    """Parse the cells of a column, and each distinct one once."""
    known: dict[type, dict[Any, Any]] = defaultdict(dict)
    parsed = []
    for row, cell in enumerate(cells, 1):
        alike = known[cell.__class__]  # 1, 1.0 and True are equal, and no names of each other
        try:
            parsed.append(alike[cell])
            continue
        except (KeyError, TypeError):  # a list cannot be a key, and every parser refuses it
            pass
        try:
            alike[cell] = value = parse(cell)
        except ValueError as error:
            raise UsageError(f"{path}, row {row}: {name} {error}") from None
        parsed.append(value)
    return parsed


def _from_zero(repeats: list[int]) -> list[int]:
    """Count repeats from 0. A table may count them from 1."""
    first = min(1, min(repeats))
    return [number - first for number in repeats] if first else repeats


def _endings(
    path: Path, verdicts: Sequence[bool | None], outcomes: Sequence[str | None] | None
) -> list[Ending | None]:
    known: dict[tuple[bool | None, str | None], Ending | None] = {}
    found = []
    for row, pair in enumerate(zip(verdicts, outcomes or [None] * len(verdicts), strict=True), 1):
        if pair not in known:
            try:
                known[pair] = values.ending(*pair)
            except ValueError as error:
                raise UsageError(f"{path}, row {row}: {error}; correct one of them") from None
        found.append(known[pair])
    return found


def _column(path: Path, sheet: Sheet, wanted: str | None, kind: str) -> int:
    """Return the position of the column of this kind.

    Raises:
        UsageError: there is no such column, or more than one.
    """
    found = _positions(sheet, wanted) if wanted else _usual(sheet, kind)
    if len(found) == 1:
        return found[0]
    there = ", ".join(sheet.names)
    if found:
        same = ", ".join(sheet.names[position] for position in found)
        raise UsageError(f"{path} has several columns of one name ({same}); rename all but one")
    missing = f"no column {wanted!r}" if wanted else f"no column that says {KINDS[kind].meaning}"
    raise UsageError(f"{path} has {missing}; it has {there}; name one with --{kind}-column")


def _usual(sheet: Sheet, kind: str) -> list[int]:
    """Return the positions of the first usual name that exists."""
    found = (_positions(sheet, name) for name in KINDS[kind].usual)
    return next(filter(None, found), [])


def _positions(sheet: Sheet, wanted: str) -> list[int]:
    """Return the columns with exactly that name, or else with that name in any case."""
    exact = [i for i, name in enumerate(sheet.names) if name == wanted]
    folded = wanted.strip().casefold()
    return exact or [i for i, name in enumerate(sheet.names) if name.casefold() == folded]
