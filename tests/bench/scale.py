"""Reports of large experiments: many model calls, many arms, and many files.

DuckDB generates the rows from the declared columns.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import duckdb
import pyarrow as pa

from reports.columns import TABLES, Column
from tests.bench.timing import Bound, Ratio, Used, measured

DURABENCH = str(Path(sys.executable).with_name("durabench"))
NAME = "scale"


@dataclass(frozen=True)
class Size:
    """The size of an experiment, whose cells are arms × instances × repeats."""

    arms: int
    instances: int
    repeats: int
    calls: int = 0
    """Model calls of each attempt."""
    is_split: bool = False
    """True for one file per cell and table, otherwise one per arm, repeat and table."""

    @property
    def cells(self) -> int:
        return self.arms * self.instances * self.repeats

    def __str__(self) -> str:
        return f"{self.arms} arms, {self.cells:,} attempts, {self.cells * self.calls:,} calls"


LARGE = Size(arms=20, instances=500, repeats=10, calls=100)
SECONDS, GIBIBYTES = 3.0, 0.8

PUBLISHED = Size(arms=123, instances=500, repeats=1)
"""As many arms and instances as a published matrix of results, with all pairs of arms."""
PUBLISHED_SECONDS, PAGE_MB = 8.0, 3.0

MANY_CALLS, FEW_CALLS = (Size(20, 500, 1, calls) for calls in (1_000, 1))
"""The same attempts with many calls and with few."""
TIMES_AGGREGATE = 4.0

SPLIT, WHOLE = (Size(2, 100, 5, is_split=is_split) for is_split in (True, False))
"""The same results in many files and in few."""
MS_PER_FILE = 1.0

_CONSTANTS: Mapping[str, str] = {
    "VARCHAR": "''",
    "BIGINT": "0",
    "DOUBLE": "0.0",
    "BOOLEAN": "false",
    "VARCHAR[]": "[]::varchar[]",
    "TIMESTAMP WITH TIME ZONE": "timestamptz '2026-03-01 12:00:00+00' + to_seconds(repeat)",
}
"""Default value by type, for required columns without a value in `_values`."""

_RESOLVED = "hash(instance_id, arm, repeat) % 100 < 30 + arm_order"

_PRICE = "(1 + hash(attempt_id) % 1000) / 50000.0"
"""Price of each call of an attempt in USD. Attempts and calls add up to the same sums."""


def _values(size: Size) -> Mapping[str, Mapping[str, str]]:
    """Return an expression for each column with a separate value, by table."""
    return {
        "attempts": {
            "repo": "'made/up-' || hash(instance_id) % 12",
            "agent": "'mini'",
            "model": "'made/up'",
            "provider": "'scripted'",
            "environment": "'docker'",
            "outcome": "'submitted'",
            "model_calls": f"{size.calls}",
            "input_tokens": f"{size.calls} * 5000",
            "output_tokens": f"{size.calls} * 200",
            "duration_s": "100.0 + hash(attempt_id) % 900",
            "cost_usd": f"{size.calls} * {_PRICE}",
            "billed_usd": f"{size.calls} * {_PRICE}",
            "versions": "'{}'",
        },
        "llm_calls": {
            "seq": "call",
            "model": "'made/up'",
            "input_tokens": "hash(attempt_id, call) % 10000",
            "cache_read_tokens": "hash(attempt_id, call, 1) % 5000",
            "output_tokens": "hash(attempt_id, call, 2) % 400",
            "cost_usd": _PRICE,
            "cost_source": "'declared'",
            "latency_s": "1.0",
            "finish_reason": "'stop'",
        },
        "predictions": {"model_patch": "'+' || attempt_id", "patch_sha256": "sha256(attempt_id)"},
        "evaluations": {
            "patch_sha256": "sha256(attempt_id)",
            "environment": "'docker'",
            "outcome": f"if({_RESOLVED}, 'resolved', 'unresolved')",
            "resolved": _RESOLVED,
            "gradings": "1",
            "harness_version": "'5.0.2'",
            "timeout_s": "1800.0",
        },
        "experiments": {
            "declaration_digest": "'made up'",
            "declaration": "'{}'",
            "agent": "'mini'",
            "model": "'made/up'",
            "dataset": "'made-up'",
            "dataset_digest": "'made up'",
            "instance_ids": f"(select list('i-' || range) from range({size.instances}))",
            "repeats": f"{size.repeats}",
            "environment": "'docker'",
            "primary_baseline": f"'{_arm(0)}'",
            "primary_candidate": f"'{_arm(size.arms - 1)}'",
            "family": "[]",
        },
    }


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the whole command `pairs` times; return its median wall time and maximum memory."""
    lake = folder / "lake"
    files = make(lake, LARGE)
    runs = [_report(lake, folder) for _ in range(pairs)]
    detail = f"{LARGE}, {files} files"
    cpu_s = median(used.cpu_s for used in runs)
    return [
        Bound(
            "full report of a large experiment",
            median(used.wall_s for used in runs),
            SECONDS,
            "s",
            f"{detail}, {cpu_s:.1f} s of processor time",
        ),
        Bound(
            "its memory, at most", max(used.gibibytes for used in runs), GIBIBYTES, "GiB", detail
        ),
    ]


def published(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the report of a published matrix: its median wall time, and the size of its page."""
    lake = folder / "lake"
    make(lake, PUBLISHED)
    seconds = median(_report(lake, folder).wall_s for _ in range(pairs))
    page = (lake / "reports" / NAME / "index.html").stat().st_size / 1e6
    detail = f"{PUBLISHED.arms} × {PUBLISHED.instances} cells, all pairs of arms"
    return [
        Bound("report of a published matrix", seconds, PUBLISHED_SECONDS, "s", detail),
        Bound("its page", page, PAGE_MB, "MB", detail),
    ]


def calls(folder: Path, *, pairs: int) -> list[Ratio]:
    """Measure what ten million calls add to a report, against the plain sums of their table."""
    many, few = folder / "many", folder / "few"
    make(many, MANY_CALLS)
    make(few, FEW_CALLS)
    added_s, plain_s = [], []
    for _ in range(pairs):
        few_s = _report(few, folder).cpu_s
        added_s.append(_report(many, folder).cpu_s - few_s)
        plain_s.append(_sum_calls(many))
    title = f"{MANY_CALLS.cells * MANY_CALLS.calls:,} calls in a report against their plain sums"
    return [Ratio(f"{title}, processor time", added_s, plain_s, TIMES_AGGREGATE)]


def _sum_calls(lake: Path) -> float:
    """Return the processor time in seconds of a query for the sums of calls by arm and role."""
    query = f"""
        select arm, role, count(*), sum(cost_usd), sum(input_tokens), sum(output_tokens)
        from read_parquet('{lake}/llm_calls/**/*.parquet', hive_partitioning = true)
        group by all
    """
    with duckdb.connect() as connection:
        begun = time.process_time()
        connection.execute(query).fetchall()
        return time.process_time() - begun


def files(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the processor time of a file: the same report from many files and from few."""
    split, whole = folder / "split", folder / "whole"
    many, few = (make(lake, size) for lake, size in ((split, SPLIT), (whole, WHOLE)))
    added_s = []
    for _ in range(pairs):
        few_s = _report(whole, folder).cpu_s
        added_s.append(_report(split, folder).cpu_s - few_s)
    return [
        Bound(
            "a further small file of a lake in a report, processor time",
            1000 * median(added_s) / (many - few),
            MS_PER_FILE,
            "ms",
            f"{SPLIT.cells:,} attempts in {many:,} files against {few}",
        )
    ]


def make(lake: Path, size: Size) -> int:
    """Write the experiment `NAME` with the declared columns. Return the number of its files.

    Steps have no table, and calls only if there are any.
    """
    begun = time.perf_counter()
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for table, values in _values(size).items():
            if table == "llm_calls" and not size.calls:
                continue
            for arm in range(size.arms):
                folder = lake / table / f"experiment={NAME}" / f"arm={_arm(arm)}"
                folder.mkdir(parents=True, exist_ok=True)
                for name, rows in _files(table, size, arm):
                    query = _query(table, values, size, arm, rows)
                    connection.execute(f"copy ({query}) to '{folder / name}' (format parquet)")
    count = sum(1 for _ in lake.rglob("*.parquet"))
    print(f"  {count} files made in {time.perf_counter() - begun:.0f} s", flush=True)
    return count


def _arm(number: int) -> str:
    return f"arm-{number:03}"


def _files(table: str, size: Size, arm: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each file of an arm, with a query for its repeats and instances."""
    if table == "experiments":
        yield "0.parquet", "select 0 as repeat"
        return
    for repeat in range(size.repeats):
        every = f"select {repeat} as repeat, range as number from range({size.instances})"
        if not size.is_split:
            yield f"{repeat}.parquet", every
            continue
        for number in range(size.instances):
            yield f"{repeat}-{number}.parquet", f"select {repeat} as repeat, {number} as number"


def _query(table: str, values: Mapping[str, str], size: Size, arm: int, rows: str) -> str:
    """Return a query for the rows of one file: one per cell, or one per call of each cell."""
    columns = ", ".join(
        f"({values.get(column.name) or _constant(column)})::{_type(column)} as {column.name}"
        for column in TABLES[table].columns
        if column.name not in ("attempt_id", "instance_id", "repeat", "arm_order")
    )
    if table == "experiments":
        return f"select {arm} as arm_order, {columns} from ({rows})"
    cells = (
        f"select 'i-' || number as instance_id, repeat, '{_arm(arm)}' as arm, "
        f"{arm} as arm_order, md5(concat_ws(' ', number, repeat, {arm})) as attempt_id "
        f"from ({rows})"
    )
    if table == "llm_calls":
        cells = f"select *, range as call from ({cells}), range({size.calls})"
    return f"select attempt_id, instance_id, repeat::bigint as repeat, {columns} from ({cells})"


def _constant(column: Column) -> str:
    return _CONSTANTS[_type(column)] if column.required else "null"


def _type(column: Column) -> str:
    """Return DuckDB's name for the column's type."""
    empty = pa.schema([pa.field("it", column.type)]).empty_table()
    return str(duckdb.from_arrow(empty).types[0])


def _report(lake: Path, folder: Path) -> Used:
    """Measure `durabench report`."""
    return measured([DURABENCH, "report", NAME, "--lake", str(lake)], folder)
