"""The cost of an empty cell: in one process, and in shards over three workers.

Every cell is an attempt that ends after one call, on the host and without a grading. The promise
for one process is about the difference between many and few cells, so that the fixed cost of a run
does not count. That for workers includes the start of the run and of its shards.
"""

from pathlib import Path

from tests.bench import metering
from tests.bench.metering import WORKERS, Setup, Spent, measured
from tests.bench.timing import Bound

FEW, MANY = 200, 1000
INSTANCES = 10
"""Number of bundled instances; the cells are repeats of them."""
IDLE: dict[str, object] = {
    "name": "idle",
    "agent": "mini",
    "model": {"provider": "scripted", "replies": ["I do nothing."]},
    "options": {"step_limit": 1},
}
"""One call of a model that asks for nothing. A workspace opens before it, as before any call."""

MS_PER_CELL = 60.0
CPU_MS_PER_CELL = 100.0
"""Of the command, the workers and their shards."""


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure both ways once.

    A mean over hundreds of cells needs no repetition, so `pairs` is ignored.
    """
    with metering.one_process(folder / "one") as setup:
        few, many = (_measured(setup, cells, "local") for cells in (FEW, MANY))
    with metering.workers(folder / "apart") as setup:
        few_apart, many_apart = (_measured(setup, cells, "distributed") for cells in (FEW, MANY))
    return [
        Bound(
            f"a cell that does nothing, {FEW} to {MANY} in one process",
            1000 * (many.wall_s - few.wall_s) / (MANY - FEW),
            MS_PER_CELL,
            "ms",
            _per_cell(few, many),
        ),
        Bound(
            f"one of {MANY} over {WORKERS} workers, with the start of the run",
            1000 * many_apart.wall_s / MANY,
            MS_PER_CELL,
            "ms",
            f"from {FEW} cells on: {_per_cell(few_apart, many_apart)}",
        ),
        Bound(
            "processor time of the same",
            1000 * many_apart.cpu_s / MANY,
            CPU_MS_PER_CELL,
            "ms",
            f"of the server, in addition: {1000 * many_apart.server_cpu_s / MANY:.0f} ms",
        ),
    ]


def _measured(setup: Setup, cells: int, execution: str) -> Spent:
    """Run an experiment of `cells` cells under a separate name and measure it."""
    declared = of_cells(f"cells-{cells}", [IDLE], cells, execution)
    return measured(setup, declared, cells, "--no-grade")


def of_cells(
    name: str, arms: list[dict[str, object]], cells: int, execution: str
) -> dict[str, object]:
    """Return the declaration of an experiment of that many cells."""
    return {
        "name": name,
        "arms": arms,
        "dataset": "bundled",
        "environment": "host",
        "execution": execution,
        "select": {"sample": INSTANCES},
        "repeats": cells // INSTANCES // len(arms),
        "concurrency": 8,
    }


def _per_cell(few: Spent, many: Spent) -> str:
    cells = many.cells - few.cells
    client = 1000 * (many.cpu_s - few.cpu_s) / cells
    server = 1000 * (many.server_cpu_s - few.server_cpu_s) / cells
    return f"processor: client {client:.0f} ms, server {server:.0f} ms"
