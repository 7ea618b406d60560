"""Three workers, with Prefect and the journal on PostgreSQL, killed one after another."""

import pytest

from tests.operation.running import (
    begin,
    done,
    expect,
    kill_all,
    start_worker,
    states,
    wait_until,
)
from tests.operation.storms import SKILLS, arms, results
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.turn(0),
]

INSTANCES, WORKERS = 6, 3
IN_FLIGHT = 9
"""Cells at a time. A worker may have all of them."""

CELLS_A_KILL = 3
"""Number of cells that finish between two kills, to spread the kills over the experiment."""


def test_killed_workers_change_no_result(
    on_postgres: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """Although each worker is killed once, every cell has the same result as in one process.

    At most the calls in flight at each kill are repeated.
    """
    declared = {"arms": arms(api_base), "select": {"sample": INSTANCES}, "concurrency": IN_FLIGHT}
    workers = [start_worker(on_postgres) for _ in range(WORKERS)]

    def goes_on(cells: int) -> bool:
        """Return True if that many cells are done while others run."""
        return done(on_postgres, "stormy") >= cells and "RUNNING" in states(on_postgres, "stormy")

    try:
        running = begin(on_postgres, name="stormy", **declared)
        for number in range(WORKERS):
            wait_until(lambda cells=CELLS_A_KILL * number: goes_on(cells), 400)
            kill_all(workers[number])
            workers[number] = start_worker(on_postgres)
        expect(on_postgres, running)
    finally:
        for worker in workers:
            kill_all(worker)
    after_kills, asked = results(on_postgres, "stormy"), simulation.calls.copy()
    simulation.calls.clear()
    expect(on_postgres, begin(on_postgres, name="calm", execution="local", **declared))
    assert len(after_kills) == len(SKILLS) * INSTANCES
    assert after_kills == results(on_postgres, "calm")
    assert asked.keys() == simulation.calls.keys()
    assert asked.total() - simulation.calls.total() <= WORKERS * IN_FLIGHT
