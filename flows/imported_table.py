"""Published results as a table: one row per arm and instance, in Parquet, CSV or JSON lines."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from eval.types import EvaluationOutcome
from flows import imported
from flows.cells import canonical_digest
from flows.errors import UsageError
from flows.imported import ImportedArm, Summary
from flows.lake import Lake, Row

UNIT = "table"
"""The rows of an arm are one file: the arm is imported as a whole, and replaced as a whole."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns; None looks for a usual name."""

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
"""The names that are looked for, the first that is there."""

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    label: str
    """The arm, as the table calls it."""
    instance_id: str
    resolved: bool
    cost_usd: float | None
    """None: not known."""
    calls: int
    """0 where the table has no such column."""


def import_table(
    path: Path, experiment: str, columns: Columns, lake_path: str | None
) -> list[Summary]:
    """File a table of results; the arms in the order of their first rows.

    Instances are those of all arms; one that an arm has no row for stays in its denominator
    as never run. No dataset is needed: the file stands for it.

    Raises:
        UsageError: the file, a column or a row cannot be used; nothing is written then.
    """
    content = _content(path)
    results = list(_results(path, _read(path), columns))
    arms = _by_arm(path, results)
    digest = hashlib.sha256(content).hexdigest()
    lake = Lake.open(lake_path)
    planned = imported.declare(
        lake,
        experiment,
        [
            ImportedArm(
                name,
                agent="imported",
                model=own[0].label,
                environment="imported",
                dataset=f"{path.name} (sha256 {digest[:12]})",
                dataset_digest=digest,
                instance_ids=tuple(result.instance_id for result in own),
            )
            for name, own in arms.items()
        ],
    )
    return [_file(lake, experiment, path, name, own, planned) for name, own in arms.items()]


def _file(
    lake: Lake, experiment: str, path: Path, arm: str, results: list[Result], planned: int
) -> Summary:
    attempts, evaluations = [], []
    for result in results:
        cell: Row = {
            "attempt_id": canonical_digest([experiment, arm, result.instance_id, UNIT])[:32],
            "instance_id": result.instance_id,
            "repeat": 0,
        }
        attempts.append(
            imported.bare_attempt_row(
                cell,
                imported.repository(result.instance_id),
                model=result.label,
                detail=path.name,
                cost_usd=result.cost_usd,
                model_calls=result.calls,
            )
        )
        outcome: EvaluationOutcome = "resolved" if result.resolved else "unresolved"
        evaluations.append(imported.evaluation_row(cell, outcome, harness_version="unknown"))
    lake.write("evaluations", experiment, arm, UNIT, evaluations)
    lake.write("attempts", experiment, arm, UNIT, attempts)
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    return Summary(
        arm,
        planned,
        found=len(results),
        resolved=sum(result.resolved for result in results),
        cost_usd=sum(costs) if costs else None,
    )


def _by_arm(path: Path, results: Sequence[Result]) -> dict[str, list[Result]]:
    arms: dict[str, dict[str, Result]] = {}
    for result in results:
        own = arms.setdefault(imported.arm_name(result.label), {})
        known = own.setdefault(result.instance_id, result)
        if known is not result:
            same = "" if known.label == result.label else f" (also called {known.label!r})"
            raise UsageError(
                f"{path}: {result.label!r}{same} has more than one row for {result.instance_id}; "
                "keep one per arm and instance"
            )
    if not arms:
        raise UsageError(f"{path} has no rows")
    return {name: list(own.values()) for name, own in arms.items()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _read(path: Path) -> pa.Table:
    # Each of these is a library of its own that most commands never need.
    try:
        match path.suffix:
            case ".parquet":
                import pyarrow.parquet

                return pyarrow.parquet.read_table(path)
            case ".csv":
                import pyarrow.csv

                return pyarrow.csv.read_csv(path)
            case ".jsonl":
                import pyarrow.json

                return pyarrow.json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    raise UsageError(f"{path}: a table of results ends in .parquet, .csv or .jsonl")


def _results(path: Path, table: pa.Table, columns: Columns) -> Iterator[Result]:
    def values(kind: str, parse: Callable[[Any], T]) -> Iterator[T]:
        name = _column(path, table, columns, kind)
        for number, value in enumerate(table.column(name).to_pylist(), 1):
            try:
                yield parse(value)
            except ValueError as error:
                raise UsageError(f"{path}, row {number}: {name} {error}, not {value!r}") from None

    def optional(kind: str, parse: Callable[[Any], T], unknown: T) -> Iterable[T]:
        is_there = getattr(columns, kind) or set(USUAL[kind]) & set(table.column_names)
        return values(kind, parse) if is_there else repeat(unknown, table.num_rows)

    yield from map(
        Result,
        values("arm", _text),
        values("instance", _text),
        values("resolved", _truth),
        optional("cost", _cost, None),
        optional("calls", _count, 0),
    )


def _column(path: Path, table: pa.Table, columns: Columns, kind: str) -> str:
    there = table.column_names
    wanted = getattr(columns, kind)
    name = wanted or next((usual for usual in USUAL[kind] if usual in there), None)
    if name is None or there.count(name) != 1:
        missing = f"no one column {wanted!r}" if wanted else f"no column that says the {kind}"
        raise UsageError(
            f"{path} has {missing}; it has {', '.join(there)}; name one with --{kind}-column"
        )
    return str(name)


def _text(value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise ValueError("must be text")
    return str(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | int | float) or value not in (0, 1):
        raise ValueError("must be true, false, 1 or 0")
    return bool(value)


def _cost(value: Any) -> float | None:
    """A missing cost is unknown; pandas writes it as not a number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("must be an amount of at least 0")
    return float(value)


def _count(value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value < 0 or value != value // 1:
        raise ValueError("must be a whole number")
    return int(value)
