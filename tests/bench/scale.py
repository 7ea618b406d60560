"""The report of a large experiment: 20 arms, 100,000 attempts, 10 million model calls.

DuckDB generates the rows from the declared columns, one file per arm and repeat.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from reports.columns import TABLES, Column
from tests.bench.timing import Bound

BIN = Path(sys.executable).parent
NAME = "scale"
ARMS, INSTANCES, REPEATS, CALLS = 20, 500, 10, 100
"""`CALLS` is the number per attempt."""
SECONDS, GIBIBYTES = 7.0, 0.8

_CONSTANTS: Mapping[str, str] = {
    "VARCHAR": "''",
    "BIGINT": "0",
    "DOUBLE": "0.0",
    "BOOLEAN": "false",
    "VARCHAR[]": "[]::varchar[]",
    "TIMESTAMP WITH TIME ZONE": "timestamptz '2026-03-01 12:00:00+00' + to_seconds(repeat)",
}
"""Default value by type, for required columns without a value in `_VALUES`."""

_RESOLVED = "hash(instance_id, arm, repeat) % 100 < 30 + arm_order"

_PRICE = "(1 + hash(attempt_id) % 1000) / 50000.0"
"""Price of each call of an attempt in USD. Attempts and calls add up to the same sums."""

_VALUES: Mapping[str, Mapping[str, str]] = {
    "attempts": {
        "repo": "'made/up-' || hash(instance_id) % 12",
        "agent": "'mini'",
        "model": "'made/up'",
        "provider": "'scripted'",
        "environment": "'docker'",
        "outcome": "'submitted'",
        "model_calls": f"{CALLS}",
        "input_tokens": f"{CALLS} * 5000",
        "output_tokens": f"{CALLS} * 200",
        "duration_s": "100.0 + hash(attempt_id) % 900",
        "cost_usd": f"{CALLS} * {_PRICE}",
        "billed_usd": f"{CALLS} * {_PRICE}",
        "versions": "'{}'",
    },
    "llm_calls": {
        "seq": "call",
        "model": "'made/up'",
        "input_tokens": "5000",
        "output_tokens": "200",
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
        "instance_ids": f"(select list('i-' || range) from range({INSTANCES}))",
        "repeats": f"{REPEATS}",
        "environment": "'docker'",
        "primary_baseline": "'arm-00'",
        "primary_candidate": "'arm-19'",
        "family": "[]",
    },
}


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure the whole command `pairs` times; return its median wall time and maximum memory."""
    lake = folder / "lake"
    begun = time.perf_counter()
    make(lake)
    files = sum(1 for _ in lake.rglob("*.parquet"))
    print(f"  {files} files made in {time.perf_counter() - begun:.0f} s", flush=True)
    runs = []
    for _ in range(pairs):
        runs.append(_report(lake, folder))
        print(f"  {runs[-1][0]:.1f} s, {runs[-1][1]:.2f} GiB", flush=True)
    seconds = sorted(seconds for seconds, _ in runs)[len(runs) // 2]
    rows = f"{ARMS * INSTANCES * REPEATS:,} attempts, {ARMS * INSTANCES * REPEATS * CALLS:,} calls"
    detail = f"{ARMS} arms, {rows}, {files} files"
    memory = max(gibibytes for _, gibibytes in runs)
    return [
        Bound("full report of a large experiment", seconds, SECONDS, "s", detail),
        Bound("its memory, at most", memory, GIBIBYTES, "GiB", detail),
    ]


def make(lake: Path) -> None:
    """Write the experiment `NAME` with the declared columns of every table except `steps`."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for table, values in _VALUES.items():
            for arm in range(ARMS):
                for repeat in range(REPEATS if table != "experiments" else 1):
                    path = lake / table / f"experiment={NAME}" / f"arm=arm-{arm:02}"
                    path.mkdir(parents=True, exist_ok=True)
                    query = _query(table, values, arm, repeat)
                    target = path / f"{repeat}.parquet"
                    connection.execute(f"copy ({query}) to '{target}' (format parquet)")


def _query(table: str, values: Mapping[str, str], arm: int, repeat: int) -> str:
    """Return a query for the rows of one arm and repeat.

    `llm_calls` has one row per call, and `experiments` only one row.
    """
    columns = ", ".join(
        f"({values.get(column.name) or _constant(column)})::{_type(column)} as {column.name}"
        for column in TABLES[table].columns
        if column.name not in ("attempt_id", "instance_id", "repeat", "arm_order")
    )
    if table == "experiments":
        return f"select {arm} as arm_order, {columns} from (select 0 as repeat)"
    cells = (
        f"select 'i-' || range as instance_id, {repeat} as repeat, 'arm-{arm:02}' as arm, "
        f"{arm} as arm_order, md5(concat_ws(' ', range, {repeat}, {arm})) as attempt_id "
        f"from range({INSTANCES})"
    )
    if table == "llm_calls":
        cells = f"select *, range as call from ({cells}), range({CALLS})"
    return f"select attempt_id, instance_id, repeat::bigint as repeat, {columns} from ({cells})"


def _constant(column: Column) -> str:
    return _CONSTANTS[_type(column)] if column.required else "null"


def _type(column: Column) -> str:
    """Return DuckDB's name for the column's type."""
    empty = pa.schema([pa.field("it", column.type)]).empty_table()
    return str(duckdb.from_arrow(empty).types[0])


def _report(lake: Path, folder: Path) -> tuple[float, float]:
    """Run `durabench report` and return its seconds and its peak resident memory in GiB.

    Raises:
        RuntimeError: the report failed.
    """
    command = [str(BIN / "durabench"), "report", NAME, "--lake", str(lake)]
    with (folder / "output.txt").open("w") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
    if process.returncode:
        raise RuntimeError(f"the report failed:\n{(folder / 'output.txt').read_text()[-2000:]}")
    return seconds, used.ru_maxrss / 2**20
