"""The queue of a distributed run: the cost of a cell must not grow with the number of cells."""

import time
from pathlib import Path

from agent.journal import Journal
from tests.bench.timing import Bound

FEW, MANY = 500, 10_000
GROWTH = 1.5


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure processor time on SQLite. `pairs` is ignored, since each figure is a mean."""
    few, many = (_ms_per_cell(folder, cells) for cells in (FEW, MANY))
    return [
        Bound(
            f"taking and ending each of {MANY:,} cells against {FEW:,}, processor time",
            many / few,
            GROWTH,
            "×",
            f"{many:.2f} ms against {few:.2f} ms",
        )
    ]


def _ms_per_cell(folder: Path, cells: int) -> float:
    """Return the mean over a whole queue."""
    journal = Journal.open(f"sqlite:///{folder}/journal-{cells}.sqlite")
    journal.offer("shard")
    journal.acquire("shard", "bench/1-1", 3600)
    queue = journal.queue("run")
    queue.add([f"{number:032x}" for number in range(cells)])
    before = time.process_time()
    while taken := queue.take("shard"):
        queue.end(taken.name, "shard", "done", "resolved")
    used_s = time.process_time() - before
    journal.close()
    return 1000 * used_s / cells
