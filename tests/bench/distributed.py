"""Distributed runs of cells that do nothing against local ones, and a worker without work.

Both ways use one server, one journal and the same options. A cell is the mean of an experiment with
the start of its run and of its shards. An experiment runs again after it has finished.
"""

import time
from pathlib import Path

from tests.bench import metering
from tests.bench.cells import IDLE, of_cells
from tests.bench.metering import Setup, Spent, measured
from tests.bench.timing import Bound, Ratio

CELLS = 300
WORKERS = 2
IDLE_S = 60.0

TIMES_LOCAL = 1.5
AGAIN, AGAIN_APART = 0.15, 0.2
"""Shares of the first local run."""
IDLE_PERCENT = 0.5


def run(folder: Path, pairs: int) -> list[Bound | Ratio]:
    """Measure all ways alternately, `pairs` times, by wall time and by processor time."""
    runs: dict[str, list[Spent]] = {}
    with metering.workers(folder, WORKERS) as setup:
        for pair in range(pairs):
            for execution in ("local", "distributed"):
                declared = of_cells(f"{execution}-{pair}", [IDLE], CELLS, execution)
                for which in ("first", "again"):
                    spent = measured(setup, declared, CELLS, "--no-grade")
                    runs.setdefault(f"{execution} {which}", []).append(spent)
        idle = _measure_idle_worker(setup)
    titles = {
        "distributed first": (f"a distributed cell with {WORKERS} workers", TIMES_LOCAL),
        "local again": ("a finished experiment, again", AGAIN),
        "distributed again": ("a finished distributed experiment, again", AGAIN_APART),
    }
    ratios = [
        Ratio(
            f"{title} against a local first run, {what} time",
            [take(spent) for spent in runs[way]],
            [take(spent) for spent in runs["local first"]],
            limit,
        )
        for way, (title, limit) in titles.items()
        for what, take in (("wall", _wall_s), ("processor", _cpu_s))
    ]
    return [*ratios, idle]


def _wall_s(spent: Spent) -> float:
    return spent.wall_s


def _cpu_s(spent: Spent) -> float:
    """Return the processor time of all programs, with the server."""
    return spent.cpu_s + spent.server_cpu_s


def _measure_idle_worker(setup: Setup) -> Bound:
    """Measure the processor time of a worker that finds no work."""
    before, begun = setup.workers_cpu_s(), time.perf_counter()
    time.sleep(IDLE_S)
    used_s = (setup.workers_cpu_s() - before) / len(setup.workers)
    percent = 100 * used_s / (time.perf_counter() - begun)
    return Bound("an idle worker", percent, IDLE_PERCENT, "% of a core", f"over {IDLE_S:.0f} s")
