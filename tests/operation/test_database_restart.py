"""Restarts, while cells run, of the PostgreSQL server with Prefect's database and the journal."""

from collections import Counter

import pytest

from tests.operation.running import (
    begin,
    expect,
    kill_all,
    resolved,
    start_worker,
    states,
    wait_until,
)
from tests.operation.storms import arms
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.sampled(5),
    pytest.mark.turn(4),
]


def test_the_database_is_restarted(
    on_postgres: PrefectServer,
    restartable: PostgresServer,
    simulation: Simulation,
    api_base: str,
) -> None:
    """Server, workers and cells survive a restart of the database, and no call is repeated.

    A shard that was just starting may crash and is replaced by another. The benchmark cancels it if
    the server has not noticed that.
    """
    worker = start_worker(on_postgres)
    try:
        running = begin(
            on_postgres, name="restarted", arms=arms(api_base)[-1:], select={"sample": 3}
        )
        wait_until(lambda: "RUNNING" in states(on_postgres, "restarted"))
        restartable.restart(away_s=5)
        expect(on_postgres, running)
        # On a busy machine, the benchmark does not wait until a shard without cells has ended.
        wait_until(lambda: "RUNNING" not in states(on_postgres, "restarted"))
    finally:
        kill_all(worker)
    assert resolved(on_postgres, "restarted") == {"skill-1.0": 3}
    ended = Counter(states(on_postgres, "restarted"))
    assert ended.pop("COMPLETED") >= 1
    assert ended.keys() <= {"CRASHED", "CANCELLING", "CANCELLED"}
    assert set(simulation.calls.values()) == {1}
