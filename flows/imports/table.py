"""Import published results as a table: one row per arm and instance, in any of `sheets.ENDINGS`."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from eval.digests import canonical_digest
from eval.types import EvaluationOutcome
from flows.errors import UsageError
from flows.imports import common, sheets
from flows.imports.common import ImportedArm, Summary
from flows.imports.sheets import Sheet
from flows.storage.lake import Lake, Row


@dataclass(frozen=True)
class Columns:
    """Column names, case-insensitive. None looks for a usual name."""

    instance: str | None = None
    arm: str | None = None
    resolved: str | None = None
    cost: str | None = None
    calls: str | None = None


USUAL = {
    "instance": ("instance_id", "instance", "task_id"),
    "arm": ("arm", "model", "agent", "system"),
    "resolved": ("resolved", "is_resolved", "success", "passed"),
    "cost": ("cost_usd", "cost", "usd", "instance_cost"),
    "calls": ("api_calls", "model_calls", "calls", "n_calls"),
}
"""Usual column names, by priority."""

MEANING = {
    "instance": "which instance a row is about",
    "arm": "which arm a row is of",
    "resolved": "whether an instance was resolved",
    "cost": "what an attempt cost",
    "calls": "how many model calls an attempt made",
}

UNKNOWN = {"", "-", "\N{EN DASH}", "?", "na", "n/a", "#n/a", "nan", "none", "null", "unknown"}
"""Texts that mean an unknown cost or count."""

MOST = 10**12
"""Upper limit of amounts and counts; larger ones are mistakes."""

BLANKS = "\ufeff\u200b"
"""Invisible characters that Python's `strip` does not remove."""

T = TypeVar("T")


@dataclass(frozen=True)
class PublishedResult:
    """One row of the table."""

    label: str
    """Name of the arm in the table."""
    instance_id: str
    resolved: bool
    cost_usd: float | None
    """None if unknown."""
    calls: int | None
    """None if unknown."""


def import_table(
    path: Path,
    experiment: str,
    columns: Columns,
    lake_path: str | None,
) -> list[Summary]:
    """Import a table of results. Return the arms in the order of their first rows.

    The instances are those of all arms. An instance without a row for an arm stays in the arm's
    denominator as never run. No dataset is needed: the file takes its place. Importing a table from
    the same path replaces the earlier one, including its arms and instances.

    Raises:
        UsageError: the file, a column or a row cannot be used; nothing was written.
    """
    content = _content(path)
    stripped: Counter[str] = Counter()
    results = list(_results(path, sheets.parse(path, content), columns, stripped))
    if not results:
        raise UsageError(f"{path} has no rows")
    by_label = _by_label(path, results)
    digest = hashlib.sha256(content).hexdigest()
    source = canonical_digest(["table", str(path.absolute())])[:16]
    common.check_name(experiment)
    lake = Lake.open(lake_path)
    with common.alone(lake, experiment):
        declared = common.declared(lake, experiment)
        others = [arm for arm in declared if arm.imported_from != source]
        names = common.arm_names(by_label, others)
        units = {label: f"table-{_digest_of(own)}" for label, own in by_label.items()}
        planned = common.declare(
            lake,
            experiment,
            [
                ImportedArm(
                    names[label],
                    label=label,
                    agent="imported",
                    model=label,
                    environment="imported",
                    dataset=f"{path.name} (sha256 {digest[:12]})",
                    dataset_digest=digest,
                    instance_ids=tuple(result.instance_id for result in own),
                    imported_from=source,
                    units=frozenset({units[label]}),
                )
                for label, own in by_label.items()
            ],
            source=source,
        )
        _tell_of_blanks(path, stripped)
        _tell_of_arms(path, declared, source, names)
        return [
            _file(lake, experiment, path, names[label], units[label], own, planned)
            for label, own in by_label.items()
        ]


def _tell_of_arms(
    path: Path, before: Sequence[ImportedArm], source: str, names: dict[str, str]
) -> None:
    now = set(names.values())
    gone = [a.name for a in before if a.imported_from == source and a.name not in now]
    if gone:
        common.tell(f"No longer in {path.name}, and so no longer an arm: {', '.join(gone)}.")
    corrected = {arm.imported_from for arm in before if arm.name in now} - {source, None}
    stay = [a.name for a in before if a.imported_from in corrected and a.name not in now]
    if stay:
        common.tell(
            f"{', '.join(stay)} came with another file that {path.name} has arms of, and stays; "
            "import from the path of that file to replace all of its arms."
        )


def _digest_of(results: Sequence[PublishedResult]) -> str:
    """Return the digest that names an arm's file: different results get a different file."""
    return canonical_digest([[r.instance_id, r.resolved, r.cost_usd, r.calls] for r in results])[
        :16
    ]


def _file(
    lake: Lake,
    experiment: str,
    path: Path,
    arm: str,
    unit: str,
    results: Sequence[PublishedResult],
    planned: int,
) -> Summary:
    attempts, evaluations = [], []
    for result in results:
        cell: Row = {
            "attempt_id": canonical_digest([experiment, arm, result.instance_id, "table"])[:32],
            "instance_id": result.instance_id,
            "repeat": 0,
        }
        attempts.append(
            common.bare_attempt_row(
                cell,
                common.repository(result.instance_id),
                model=result.label,
                detail=path.name,
                cost_usd=result.cost_usd,
                model_calls=result.calls,
            )
        )
        outcome: EvaluationOutcome = "resolved" if result.resolved else "unresolved"
        evaluations.append(common.evaluation_row(cell, outcome, harness_version="unknown"))
    lake.write("evaluations", experiment, arm, unit, evaluations)
    lake.write("attempts", experiment, arm, unit, attempts)
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    return Summary(
        arm,
        planned,
        found=len(results),
        resolved=sum(result.resolved for result in results),
        cost_usd=sum(costs) if costs else None,
        unpriced=len(results) - len(costs),
        label=results[0].label,
    )


def _by_label(path: Path, results: Iterable[PublishedResult]) -> dict[str, list[PublishedResult]]:
    arms: dict[str, dict[str, PublishedResult]] = {}
    for result in results:
        own = arms.setdefault(result.label, {})
        if own.setdefault(result.instance_id, result) is not result:
            raise UsageError(
                f"{path}: {result.label!r} has more than one row for {result.instance_id}; "
                "keep one per arm and instance"
            )
    return {label: list(own.values()) for label, own in arms.items()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _results(
    path: Path, sheet: Sheet, columns: Columns, stripped: Counter[str]
) -> Iterator[PublishedResult]:
    """Yield the rows in order. `stripped` counts values with surrounding blanks."""
    if not sheet.rows:
        return

    def required(kind: str, parse: Callable[[Any], T]) -> Iterator[T]:
        position = _column(path, sheet, columns, kind)
        for number, value in enumerate(sheet.column(position), 1):
            try:
                yield parse(value)
            except ValueError as error:
                name = sheet.names[position]
                raise UsageError(f"{path}, row {number}: {name} {error}") from None

    def optional(kind: str, parse: Callable[[Any], T]) -> Iterable[T | None]:
        if not getattr(columns, kind) and not _usual(sheet, kind):
            return repeat(None, sheet.rows)
        return required(kind, parse)

    def text(kind: str) -> Callable[[Any], str]:
        def parse(value: Any) -> str:
            found = _text(value)
            bare = _bare(found)
            stripped[kind] += bare != found
            return bare

        return parse

    yield from map(
        PublishedResult,
        required("arm", text("arm")),
        required("instance", text("instance")),
        required("resolved", _truth),
        optional("cost", _cost),
        optional("calls", _count),
    )


def _tell_of_blanks(path: Path, stripped: Counter[str]) -> None:
    told = [
        f"{number} {what}{'' if number == 1 else 's'}"
        for kind, what in (("instance", "instance id"), ("arm", "arm name"))
        if (number := stripped[kind])
    ]
    if told:
        common.tell(f"{path}: blanks were taken off the ends of {' and '.join(told)}.")


def _column(path: Path, sheet: Sheet, columns: Columns, kind: str) -> int:
    """Return the position of the column of this kind.

    Raises:
        UsageError: there is no such column, or more than one.
    """
    wanted = getattr(columns, kind)
    found = _positions(sheet, wanted) if wanted else _usual(sheet, kind)
    if len(found) == 1:
        return found[0]
    there = ", ".join(sheet.names)
    if found:
        same = ", ".join(sheet.names[position] for position in found)
        raise UsageError(f"{path} has several columns of one name ({same}); rename all but one")
    missing = f"no column {wanted!r}" if wanted else f"no column that says {MEANING[kind]}"
    raise UsageError(f"{path} has {missing}; it has {there}; name one with --{kind}-column")


def _usual(sheet: Sheet, kind: str) -> list[int]:
    """Return the positions of the first usual name that exists."""
    found = (_positions(sheet, name) for name in USUAL[kind])
    return next(filter(None, found), [])


def _positions(sheet: Sheet, wanted: str) -> list[int]:
    """Return the columns with exactly that name, or else with that name in any case."""
    exact = [i for i, name in enumerate(sheet.names) if name == wanted]
    folded = wanted.strip().casefold()
    return exact or [i for i, name in enumerate(sheet.names) if name.casefold() == folded]


def _text(value: Any) -> str:
    """Return a name as text. Whole numbers and bytes that contain text are accepted."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value == value // 1:
        value = str(int(value))
    if not isinstance(value, str) or not _bare(value) or not _is_storable(value):
        raise _refusal("must be text", value)
    return value


def _bare(text: str) -> str:
    """Return the text without surrounding blanks."""
    while (bare := text.strip().strip(BLANKS)) != text:
        text = bare
    return text


def _is_storable(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False


def _truth(value: Any) -> bool:
    number = _number(value)
    if isinstance(number, str) and number.lower() in ("true", "false"):
        return number.lower() == "true"
    if isinstance(number, str) or number not in (0, 1):
        hint = "; leave the row out where there is no result" if number is None else ""
        raise _refusal("must be true, false, 1 or 0", number, hint)
    return bool(number)


def _cost(value: Any) -> float | None:
    """Return a cost; None if it is missing. pandas writes a missing cost as NaN."""
    number = _number(value)
    if number is None:
        return None
    if isinstance(number, str | bool) or not 0 <= number < MOST:
        shown = number if isinstance(number, str | bool) else float(number)
        raise _refusal(
            "must be an amount of at least 0", shown, " (US dollars, as 0.25, below a trillion)"
        )
    return abs(float(number))


def _count(value: Any) -> int | None:
    number = _number(value)
    if number is None:
        return None
    if isinstance(number, str | bool) or not 0 <= number < MOST or number != number // 1:
        raise _refusal("must be a whole number", number)
    return int(number)


def _number(value: Any) -> int | float | bool | str | None:
    """Return a cell as a number or truth value; None if unknown, its text if it is neither."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        value = _bare(value)
        return None if value.lower() in UNKNOWN else _parsed(value)
    if hasattr(value, "item"):  # numpy scalars, from half floats
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value // 1 else float(value)
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
