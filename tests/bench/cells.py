"""What a cell costs that does nothing: in one process, and as flow runs over three workers.

Every cell is an attempt of the arm `null`, on the host and without a grading. What is promised is
the difference between many cells and few of them, so that what a run costs once is not counted.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.bench.timing import Bound
from tests.servers.prefect_server import PrefectServer

FEW, MANY = 200, 1000
FEW_APART, MANY_APART = 10, 60
"""Over workers, where each cell is a process of its own that has to begin: a thousand of them take
most of an hour on two cores."""
WORKERS = 3
INSTANCES = 10
"""Of the bundled ones; the cells are repeats of them."""
MS_PER_CELL, MEMORY_GROWTH = 60.0, 1.10


@dataclass(frozen=True)
class Spent:
    """What one run of an experiment took; of workers, all that they started."""

    cells: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    database_bytes: int
    """Prefect's and the journal's."""
    peak_bytes: int
    """The most memory that the command itself had."""


def run(folder: Path, pairs: int) -> list[Bound]:
    """Both ways, once each: `pairs` is for what is noisier than a mean over hundreds of cells."""
    with PrefectServer(folder / "one") as server:
        few, many = (_measured(server, cells, "local") for cells in (FEW, MANY))
    with PrefectServer(folder / "apart") as server, ExitStack() as workers:
        server.run("durabench", "setup")
        server.prefect("deploy", "--all")
        pids = [workers.enter_context(server.worker()).pid for _ in range(WORKERS)]
        few_apart, many_apart = (
            _measured(server, cells, "distributed", pids) for cells in (FEW_APART, MANY_APART)
        )
    return [
        Bound(
            f"a cell that does nothing, {FEW} to {MANY} in one process",
            1000 * (many.wall_s - few.wall_s) / (MANY - FEW),
            MS_PER_CELL,
            "ms",
            _per_cell(few, many),
        ),
        Bound(
            f"memory of {MANY} cells against {FEW}",
            many.peak_bytes / few.peak_bytes,
            MEMORY_GROWTH,
            "×",
            f"{many.peak_bytes / 2**20:.0f} MiB against {few.peak_bytes / 2**20:.0f} MiB",
        ),
        Bound(
            f"the same as flow runs, {FEW_APART} to {MANY_APART} over {WORKERS} workers",
            (many_apart.wall_s - few_apart.wall_s) / (MANY_APART - FEW_APART),
            float("inf"),
            "s",
            _per_cell(few_apart, many_apart),
        ),
    ]


def _per_cell(few: Spent, many: Spent) -> str:
    cells = many.cells - few.cells
    client = 1000 * (many.client_cpu_s - few.client_cpu_s) / cells
    server = 1000 * (many.server_cpu_s - few.server_cpu_s) / cells
    size = (many.database_bytes - few.database_bytes) / cells
    return (
        f"processor: client {client:.0f} ms, server {server:.0f} ms; "
        f"databases {size / 1000:.0f} kB; whole run {many.wall_s:.0f} s"
    )


def _measured(
    server: PrefectServer, cells: int, execution: str, workers: Sequence[int] = ()
) -> Spent:
    """Run an experiment of so many cells under a name of its own. `workers`: their process ids."""
    path = server.folder / f"cells-{cells}.yaml"
    path.write_text(yaml.safe_dump(_declared(cells, execution)))
    before = _Used.by(server, workers)
    started = time.perf_counter()
    running = server.begin("durabench", "run", str(path), "--no-grade")
    _, status, usage = os.wait4(running.pid, 0)
    wall_s = time.perf_counter() - started
    if status:
        raise RuntimeError(f"{cells} cells: {server.printed(running)[-2000:]}")
    after = _Used.by(server, workers)
    return Spent(
        cells,
        wall_s,
        usage.ru_utime + usage.ru_stime + after.workers_cpu_s - before.workers_cpu_s,
        after.server_cpu_s - before.server_cpu_s,
        after.database_bytes - before.database_bytes,
        usage.ru_maxrss * 1024,
    )


@dataclass(frozen=True)
class _Used:
    """Up to a moment."""

    workers_cpu_s: float
    server_cpu_s: float
    database_bytes: int

    @classmethod
    def by(cls, server: PrefectServer, workers: Sequence[int]) -> "_Used":
        databases = [*server.folder.glob("prefect/prefect.db*"), *_journals(server)]
        return cls(
            sum(_cpu_s(pid) for pid in workers),
            _cpu_s(server.pid),
            sum(path.stat().st_size for path in databases),
        )


def _journals(server: PrefectServer) -> Iterator[Path]:
    return server.folder.glob("lake/journal.sqlite*")


def _cpu_s(pid: int) -> float:
    """Of a process and of those of its children that have ended, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _declared(cells: int, execution: str) -> dict[str, object]:
    return {
        "name": f"cells-{cells}",
        "dataset": "bundled",
        "environment": "host",
        "execution": execution,
        "select": {"sample": INSTANCES},
        "repeats": cells // INSTANCES,
        "arms": [{"name": "null", "agent": "null"}],
        "concurrency": 8,
    }
