"""A worker that is stopped, as by a restart of the machine's services."""

import signal
from typing import Any

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

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


LATEST_S = 60
"""After this time without news of a shard, the benchmark would replace it anyway."""


def was_stopped(shard: dict[str, Any]) -> bool:
    """Return True if a shard says that its worker was stopped."""
    state = shard["state"]
    return state["type"] == "CRASHED" and "Its worker was stopped" in state["message"]


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
        first.wait(timeout=LATEST_S)
        second = start_worker(server)
        wait_until(lambda: any(was_stopped(run) for run in shards(server, "handed")), LATEST_S)
        expect(server, running)
    finally:
        kill_all(first)
        if second is not None:
            kill_all(second)
    assert resolved(server, "handed") == {"skill-1.0": 3}
    assert set(simulation.calls.values()) == {1}
