"""The cost of an empty cell: in one process, and in shards over three workers.

Every cell is an attempt that ends after one call, on the host and without a grading. The promise
for one process is about the difference between many and few cells, so that the fixed cost of a run
does not count. That for workers includes the start of the run and of its shards.
"""

import ctypes
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from tests.bench.timing import Bound
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

FEW, MANY = 200, 1000
WORKERS = 3
INSTANCES = 10
"""Number of bundled instances; the cells are repeats of them."""
IDLE = {
    "name": "idle",
    "agent": "mini",
    "model": {"provider": "scripted", "replies": ["I do nothing."]},
    "options": {"step_limit": 1},
}
"""One call of a model that asks for nothing, so that no workspace is opened."""

MS_PER_CELL, MEMORY_GROWTH = 60.0, 1.10
CPU_MS_PER_CELL = 100.0
"""Of the command, the workers and their shards."""

_PR_SET_CHILD_SUBREAPER = 36  # from <linux/prctl.h>

_DONE = re.compile(r"^\[ *\d+/\d+\] ", re.MULTILINE)
_LOOK_S = 0.2


@dataclass(frozen=True)
class Spent:
    """Resources used by one run of an experiment, including all processes of the workers."""

    cells: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    database_bytes: int
    """Growth of Prefect's database and the journal."""
    memory_bytes: dict[int, int]
    """Memory of the command by number of finished cells, without the report at the end."""
    peak_bytes: int
    """Peak memory of the command, including the report."""


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure both ways once.

    A mean over hundreds of cells needs no repetition, so `pairs` is ignored.
    """
    _adopt_orphans()
    with PrefectServer(folder / "one") as server:
        setup = _Setup(server, lambda: _files(server.folder))
        few, many = (_measured(setup, cells, "local") for cells in (FEW, MANY))
    with ExitStack() as workers:
        database = workers.enter_context(PostgresServer())
        own = database.create_database("asyncpg")
        server = workers.enter_context(
            PrefectServer(folder / "apart", PREFECT_API_DATABASE_CONNECTION_URL=own)
        )
        server.environment["DURABENCH_DATABASE_URL"] = database.create_database()
        server.run("durabench", "setup")
        server.prefect("deploy", "--all")
        polls = {"PREFECT_WORKER_QUERY_SECONDS": "2"}  # as flows/operation/README.md says
        pids = [workers.enter_context(server.worker(**polls)).pid for _ in range(WORKERS)]
        setup = _Setup(server, database.size_bytes, pids)
        few_apart, many_apart = (_measured(setup, cells, "distributed") for cells in (FEW, MANY))
    return [
        Bound(
            f"a cell that does nothing, {FEW} to {MANY} in one process",
            1000 * (many.wall_s - few.wall_s) / (MANY - FEW),
            MS_PER_CELL,
            "ms",
            _per_cell(few, many),
        ),
        _memory(many),
        Bound(
            f"one of {MANY} over {WORKERS} workers, with the start of the run",
            1000 * many_apart.wall_s / MANY,
            MS_PER_CELL,
            "ms",
            f"from {FEW} cells on: {_per_cell(few_apart, many_apart)}",
        ),
        Bound(
            "processor time of the same",
            1000 * many_apart.client_cpu_s / MANY,
            CPU_MS_PER_CELL,
            "ms",
            f"of the server, in addition: {1000 * many_apart.server_cpu_s / MANY:.0f} ms",
        ),
    ]


def _memory(spent: Spent) -> Bound:
    sizes = spent.memory_bytes
    early = sizes[min(done for done in sizes if done >= FEW)]
    late = sizes[max(sizes)]
    return Bound(
        f"memory after {max(sizes)} cells against {FEW} in one process",
        late / early,
        MEMORY_GROWTH,
        "×",
        f"{late / 2**20:.0f} MiB against {early / 2**20:.0f} MiB; with the report "
        f"{spent.peak_bytes / 2**20:.0f} MiB",
    )


def _per_cell(few: Spent, many: Spent) -> str:
    cells = many.cells - few.cells
    client = 1000 * (many.client_cpu_s - few.client_cpu_s) / cells
    server = 1000 * (many.server_cpu_s - few.server_cpu_s) / cells
    size = (many.database_bytes - few.database_bytes) / cells
    return (
        f"processor: client {client:.0f} ms, server {server:.0f} ms; "
        f"databases {size / 1000:.0f} kB; whole run {many.wall_s:.0f} s"
    )


@dataclass(frozen=True)
class _Setup:
    """The programs that run beside the measured command."""

    server: PrefectServer
    database_bytes: Callable[[], int]
    workers: Sequence[int] = ()
    """Process ids."""

    def workers_cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in self.workers)

    def shards_cpu_s(self) -> float:
        """Processor time of the processes of shards that have ended since the last call.

        They outlive the process of their flow run, so that they count in no worker.
        """
        while any("forkserver" in " ".join(_command(each)) for each in _below()):
            time.sleep(_LOOK_S)
        own = {self.server.pid, *self.workers}
        ended = [each.pid for each in psutil.Process().children() if each.pid not in own]
        zombies = [pid for pid in ended if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE]
        used = [os.wait4(pid, 0)[2] for pid in zombies]
        return sum(each.ru_utime + each.ru_stime for each in used)


def _measured(setup: _Setup, cells: int, execution: str) -> Spent:
    """Run an experiment of `cells` cells under a separate name and measure it."""
    server = setup.server
    path = server.folder / f"cells-{cells}.yaml"
    path.write_text(yaml.safe_dump(_declared(cells, execution)))
    setup.shards_cpu_s()
    workers_s, server_s, size = setup.workers_cpu_s(), _cpu_s(server.pid), setup.database_bytes()
    started = time.perf_counter()
    running = server.begin("durabench", "run", str(path), "--no-grade")
    memory: dict[int, int] = {}
    while not (ended := os.wait4(running.pid, os.WNOHANG))[0]:
        memory[len(_DONE.findall(server.printed(running)))] = _resident_bytes(running.pid)
        time.sleep(_LOOK_S)
    wall_s = time.perf_counter() - started
    _, status, usage = ended
    if status:
        raise RuntimeError(f"{cells} cells: {server.printed(running)[-2000:]}")
    workers_s -= setup.shards_cpu_s()
    return Spent(
        cells,
        wall_s,
        usage.ru_utime + usage.ru_stime + setup.workers_cpu_s() - workers_s,
        _cpu_s(server.pid) - server_s,
        setup.database_bytes() - size,
        {done: size for done, size in memory.items() if 0 < done < cells},
        usage.ru_maxrss * 1024,
    )


def _adopt_orphans() -> None:
    """Become the parent of processes below this one that lose theirs."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _below() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def _files(folder: Path) -> int:
    """Return the size of the SQLite databases in bytes."""
    patterns = ("prefect/prefect.db*", "lake/journal.sqlite*")
    return sum(path.stat().st_size for each in patterns for path in folder.glob(each))


def _resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
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
        "arms": [IDLE],
        "concurrency": 8,
    }
