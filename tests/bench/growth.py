"""Ten thousand cells in one experiment: time and memory must not grow with its size.

Every cell is an attempt that changes nothing, with its verdict. The cells run in shards over three
workers. Then the finished experiment is run again, in both ways.
"""

from pathlib import Path

from tests.bench import metering
from tests.bench.cells import of_cells
from tests.bench.metering import WORKERS, Setup, Spent, measured
from tests.bench.timing import Bound

SIZES = {1_000: 10.0, 10_000: 60.0}
"""Numbers of cells, and the most seconds that a run of such a finished experiment may take."""

CELLS_OF_AN_ARM = 1_000
"""Ten instances, a hundred times each."""

WINDOW = 2_000
"""Cells at the beginning and at the end of the large run, whose cost is compared."""
WARM = 1_000
"""Cells before the first of them."""
GROWTH = 1.10


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure each size once.

    A mean over thousands of cells needs no repetition, so `pairs` is ignored.
    """
    with metering.workers(folder) as setup:
        figures = []
        for cells, again_s in SIZES.items():
            spent = _measured(setup, cells, "distributed")
            figures += [_again(setup, cells, how, again_s) for how in ("distributed", "local")]
        return [*_growth(spent), *figures]


def _measured(setup: Setup, cells: int, execution: str) -> Spent:
    arms: list[dict[str, object]] = [
        {"name": f"null-{number}", "agent": "null"} for number in range(cells // CELLS_OF_AN_ARM)
    ]
    return measured(setup, of_cells(f"growth-{cells}", arms, cells, execution), cells)


def _again(setup: Setup, cells: int, execution: str, limit_s: float) -> Bound:
    """Run a finished experiment again."""
    spent = _measured(setup, cells, execution)
    return Bound(
        f"a finished experiment of {cells:,} cells again, {execution}",
        spent.wall_s,
        limit_s,
        "s",
        f"{spent.cpu_s:.1f} s of processor time, {spent.peak_bytes / 2**20:.0f} MiB",
    )


def _growth(spent: Spent) -> list[Bound]:
    """Return the growth of each resource from the first cells to the last ones of a run."""
    late = spent.looks[-1].done
    ends = [(WARM, WARM + WINDOW), (late - WINDOW, late)]
    (first, last), memory = (
        [[spent.after(done) for done in end] for end in ends],
        [spent.after(WARM), spent.looks[-1]],
    )
    told = f"cells {first[0].done:,} to {first[1].done:,} against the last {WINDOW:,}"
    figures = []
    for what, unit in (("cpu_s", "processor time"), ("server_cpu_s", "server's"), ("at_s", "time")):
        early_ms, late_ms = (
            1000 * (getattr(end, what) - getattr(begin, what)) / (end.done - begin.done)
            for begin, end in (first, last)
        )
        figures.append(
            Bound(
                f"growth of the {unit} of a cell over {WORKERS} workers",
                late_ms / early_ms,
                GROWTH,
                "×",
                f"{told}: {early_ms:.1f} ms, {late_ms:.1f} ms",
            )
        )
    for what in ("command", "shard"):
        early, late_bytes = (getattr(look, f"{what}_bytes") for look in memory)
        figures.append(
            Bound(
                f"growth of the memory of a {what}",
                late_bytes / early,
                GROWTH,
                "×",
                f"{early / 2**20:.0f} MiB after {WARM:,} cells, then {late_bytes / 2**20:.0f} MiB",
            )
        )
    return figures
