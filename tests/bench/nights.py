"""Sixty nights of a schedule, with and without `durabench prune`: files, bytes and times.

The first night is run, and the others are its copies under other names, dates and ids. Copies share
the bodies of the first night, as the answers of a simulated model do.
"""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from tests.bench.timing import Bound, measured

DURABENCH = str(Path(sys.executable).with_name("durabench"))
SERIES, NIGHTS, WHOLE = "smoke", 60, 14
"""The last `WHOLE` nights keep everything."""

FILES_PER_OLD_NIGHT = 40.0
TIMES_SLOWER = {"report": 1.5, "history": 3.0, "status": 3.0}
"""Maximum time with `NIGHTS` nights against two. A report reads one night, and the others all."""

SMOKE = {
    "name": SERIES,
    "dataset": "bundled",
    "select": {"sample": 5},
    "environment": "host",
    "concurrency": 4,
    "arms": [
        {"name": "durable", "agent": "durable", "model": {"provider": "simulated", "skill": 0.6}},
        {"name": "mini", "agent": "mini", "model": {"provider": "simulated", "skill": 0.4}},
        {"name": "gold", "agent": "gold"},
    ],
}
_JOURNALED = ("attempts", "leases", "steps", "ledger", "tenures")
_TIMES = ("started_at", "began_at", "ended_at")
"""Columns of the journal in seconds since 1970."""


def run(folder: Path, *, pairs: int) -> list[Bound]:
    """Measure once. `pairs` is ignored, since it takes long."""
    lake, first = folder / "lake", name_night(0)
    (folder / "smoke.yaml").write_text(yaml.safe_dump({**SMOKE, "name": first}))
    measured([DURABENCH, "run", "smoke.yaml", "--lake", str(lake)], folder)
    return compare(folder, lake, first)


def compare(folder: Path, lake: Path, first: str) -> list[Bound]:
    """Add the other nights to a lake, prune them, and compare files and times."""
    repeat_night(lake, first, 1)
    few_s = _time_reads(folder, lake)
    for days in range(2, NIGHTS):
        repeat_night(lake, first, days)
    _print_sizes("before", lake)
    many_s = _time_reads(folder, lake)
    prune = [DURABENCH, "prune", "--older-than", f"{WHOLE}d", "--remove", "--lake", str(lake)]
    for only in ("steps", "rows", "bodies", "reports", "files"):
        prune += ["--only", only]
    measured(prune, folder)
    _print_sizes("after", lake)
    pruned_s = _time_reads(folder, lake)
    old = sum(1 for days in range(WHOLE, NIGHTS) for _ in list_night(lake, name_night(days)))
    bounds = [
        Bound(
            "files of a night that was pruned",
            old / (NIGHTS - WHOLE),
            FILES_PER_OLD_NIGHT,
            "files",
            f"{sum(1 for _ in list_night(lake, first))} of one that was not",
        )
    ]
    for command, seconds in pruned_s.items():
        detail = f"{few_s[command]:.1f} s with 2 nights, {many_s[command]:.1f} s without a prune"
        title = f"processor time of {command} with {NIGHTS} nights, pruned, against 2"
        bounds.append(
            Bound(title, seconds / few_s[command], TIMES_SLOWER[command], "times", detail)
        )
    return bounds


def name_night(days: int) -> str:
    """Return the name of the run that began a number of days ago."""
    return f"{SERIES}-{datetime.now(UTC) - timedelta(days):%Y%m%dt040000}"


def list_night(lake: Path, name: str) -> Iterator[Path]:
    """Yield the files of a night, without its results, whose names do not tell it."""
    for path in lake.rglob("*"):
        if path.is_file() and {f"experiment={name}", name} & set(path.parts):
            yield path


def repeat_night(lake: Path, first: str, days: int) -> None:
    """Copy the rows, the journal, the results and the report of a night to an earlier one."""
    name = name_night(days)

    def rename(unit: str) -> str:
        attempt_id, *rest = unit.split("-", 1)
        return "-".join([sha256(f"{name} {attempt_id}".encode()).hexdigest()[:32], *rest])

    for path in list_night(lake, first):
        relative = str(path.relative_to(lake)).replace(first, name)
        target = (lake / relative).with_name(path.name)
        if path.suffix == ".parquet":
            if path.parts[-4] != "experiments":
                target = target.with_stem(rename(path.stem))
            _write(target, _shift(pq.read_table(path, partitioning=None), rename, days))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        _age(target, days)
    for attempt in (lake / "attempts" / f"experiment={first}").rglob("*.parquet"):
        for path in (lake / ".results").glob(f"attempt-{attempt.stem}*"):
            target = path.with_name(path.name.replace(attempt.stem, rename(attempt.stem)))
            shutil.copy(path, target)
            _age(target, days)
    with closing(sqlite3.connect(lake / "journal.sqlite")) as journal, journal:
        _repeat_attempts(journal, first, name, rename, days)


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _shift(table: pa.Table, rename: Callable[[str], str], days: int) -> pa.Table:
    for number, field in enumerate(table.schema):
        column = table[field.name]
        if field.name == "attempt_id":
            column = pa.array([rename(str(value)) for value in column.to_pylist()], field.type)
        elif pa.types.is_timestamp(field.type):
            column = pc.subtract(column, pa.scalar(timedelta(days), pa.duration("us")))
        table = table.set_column(number, field, column)
    return table


def _repeat_attempts(
    journal: sqlite3.Connection, first: str, name: str, rename: Callable[[str], str], days: int
) -> None:
    journal.create_function("rename", 1, rename)
    query = "select attempt_id from attempts where experiment = ?"
    ids = [row[0] for row in journal.execute(query, [first])]
    marks = ", ".join("?" * len(ids))
    for table in _JOURNALED:
        columns = [row[1] for row in journal.execute(f"pragma table_info({table})")]
        values = {column: column for column in columns}
        values |= {column: f"{column} - {days * 86400}" for column in _TIMES if column in columns}
        values["attempt_id"] = "rename(attempt_id)"
        if table == "attempts":
            values["experiment"] = f"'{name}'"
        journal.execute(
            f"insert into {table} ({', '.join(values)}) "
            f"select {', '.join(values.values())} from {table} where attempt_id in ({marks})",
            ids,
        )
    journal.execute(
        "insert into claims select ?, lake_id, lake from claims where experiment = ?", [name, first]
    )


def _age(path: Path, days: int) -> None:
    os.utime(path, (time.time() - days * 86400,) * 2)


def _time_reads(folder: Path, lake: Path) -> dict[str, float]:
    """Return the processor time of commands about the newest night, in seconds."""
    commands = {
        "history": ["history", SERIES],
        "status": ["status"],
        "report": ["report", name_night(0)],
    }
    return {
        name: measured([DURABENCH, *command, "--lake", str(lake)], folder).cpu_s
        for name, command in commands.items()
    }


def _print_sizes(when: str, lake: Path) -> None:
    for part in sorted(lake.iterdir()):
        files = [path for path in (part, *part.rglob("*")) if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        print(f"  {when}: {part.name}: {len(files)} files, {size / 1e6:.2f} MB", flush=True)
