"""Ten thousand cells in one experiment: time and memory must not grow with its size.

Every cell is an attempt that ends after one call and opens no workspace, with its verdict. The
cells run in shards over three workers. Then the finished experiment is run again, in both ways.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from tests.bench import metering
from tests.bench.cells import IDLE, of_cells
from tests.bench.metering import WORKERS, Look, Setup, Spent, measured
from tests.bench.timing import Bound

SIZES = {1_000: 10.0, 10_000: 60.0}
"""Numbers of cells, and the most seconds that a run of such a finished experiment may take."""

CELLS_OF_AN_ARM = 1_000
"""Ten instances, a hundred times each."""

WINDOW = 0.2
"""Share of the cells at the beginning and at the end of the large run, whose cost is compared."""
WARM = 0.1
"""Share of the cells before the first of them."""
GROWTH = 1.10


def run(folder: Path, pairs: int) -> list[Bound]:
    """Measure each number of cells once, and compare the cells of the last run.

    A mean over thousands of cells needs no repetition, so `pairs` is ignored.
    """
    with metering.workers(folder) as setup:
        figures = []
        for cells in SIZES:
            spent = _measured(setup, cells, "distributed")
            figures += [_again(setup, cells, how) for how in ("distributed", "local")]
        return [*_growth(spent), *figures]


def _measured(setup: Setup, cells: int, execution: str) -> Spent:
    count = -(-cells // CELLS_OF_AN_ARM)
    arms = [{**IDLE, "name": f"idle-{number}"} for number in range(count)]
    return measured(setup, of_cells(f"growth-{cells}", arms, cells, execution), cells)


def _again(setup: Setup, cells: int, execution: str) -> Bound:
    """Run a finished experiment again."""
    spent = _measured(setup, cells, execution)
    return Bound(
        f"a finished experiment of {cells:,} cells again, {execution}",
        spent.wall_s,
        SIZES[cells],
        "s",
        f"{spent.cpu_s:.1f} s of processor time",
    )


def _growth(spent: Spent) -> list[Bound]:
    """Return the growth of each resource from the first cells to the last ones of a run.

    Times are relative to those of a fixed loop in the same minutes, because the speed of a shared
    machine changes by more than the promise allows.
    """
    late, warm, window = spent.looks[-1].done, int(WARM * spent.cells), int(WINDOW * spent.cells)
    ends = [(warm, warm + window), (late - window, late)]
    early, last = ([spent.before(begin), spent.after(end)] for begin, end in ends)
    told = f"cells {early[0].done:,} to {early[1].done:,} against the last {window:,}"
    slower = _mean_loop_s(spent, last) / _mean_loop_s(spent, early)
    figures = []
    for what, unit in (("cpu_s", "processor time"), ("server_cpu_s", "server's"), ("at_s", "time")):
        early_ms, late_ms = (
            1000 * (getattr(end, what) - getattr(begin, what)) / (end.done - begin.done)
            for begin, end in (early, last)
        )
        figures.append(
            Bound(
                f"growth of the {unit} of a cell over {WORKERS} workers",
                late_ms / early_ms / slower,
                GROWTH,
                "×",
                f"{told}: {early_ms:.1f} ms, {late_ms:.1f} ms, and {slower:.2f} × for a loop",
            )
        )
    for what in ("command", "shard"):
        looks = [look for look in spent.looks if getattr(look, f"{what}_bytes")]
        begin_bytes, end_bytes = (
            getattr(look, f"{what}_bytes") for look in (spent.after(warm), looks[-1])
        )
        figures.append(
            Bound(
                f"growth of the memory of a {what}",
                end_bytes / begin_bytes,
                GROWTH,
                "×",
                f"{begin_bytes / 2**20:.0f} MiB after {warm:,} cells, then "
                f"{end_bytes / 2**20:.0f} MiB",
            )
        )
    return figures


def _mean_loop_s(spent: Spent, window: Sequence[Look]) -> float:
    """Return the mean processor time of the fixed loop between two looks."""
    begin, end = window
    return fmean(look.loop_s for look in spent.between(begin, end))
