"""A worker that is stopped, as by a restart of the machine's services."""

import signal
import time

import pytest

from tests.operation.running import (
    begin,
    expect,
    kill_all,
    resolved,
    shards,
    start_worker,
    wait_until,
)
from tests.operation.storms import arms
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.sampled(3)]


def test_a_stopped_worker_finishes_its_calls_and_hands_its_cells_back(
    server: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """Prefect kills the processes of a stopped worker. Calls in flight still finish and are
    recorded, and another worker continues at once without a repeated call."""
    simulation.latency_s = 2.0
    first = start_worker(server)
    second = None
    try:
        running = begin(server, name="handed", arms=arms(api_base)[-1:], select={"sample": 3})
        wait_until(lambda: simulation.calls.total() >= 4)
        first.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        first.wait(timeout=60)
        second = start_worker(server)
        [crashed] = wait_until(
            lambda: [run for run in shards(server, "handed") if run["state"]["type"] == "CRASHED"]
        )
        assert "Its worker was stopped" in crashed["state"]["message"]
        assert time.monotonic() - stopped_at < 60
        expect(server, running)
    finally:
        kill_all(first)
        if second is not None:
            kill_all(second)
    assert resolved(server, "handed") == {"skill-1.0": 3}
    assert set(simulation.calls.values()) == {1}
