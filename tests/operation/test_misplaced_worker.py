"""A worker with another journal or lake than the benchmark must not pay for any call."""

from pathlib import Path

import pytest

from tests.operation.running import begin, expect, resolved, run_workers, states
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_worker_with_another_journal_refuses_and_nothing_is_paid_twice(
    server: PrefectServer, simulation: Simulation, api_base: str, tmp_path: Path
) -> None:
    """A worker with another journal refuses the cells, and the run ends and states the reason."""
    model = {
        "name": "openai/skill-1.0",
        "api_base": api_base,
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-5,
    }
    changes = {
        "name": "misplaced",
        "arms": [{"name": "mini", "agent": "mini", "model": model}],
        "select": {"sample": 1},
    }
    other = tmp_path / "other.sqlite"
    with server.worker(DURABENCH_DATABASE_URL=f"sqlite:///{other}"):
        running = begin(server, **changes)
        expect(server, running, 3)
    printed = server.printed(running)
    assert f"its journal at sqlite:///{server.folder}/lake/journal.sqlite" in printed
    assert f"this worker's is at sqlite:///{other}: unset DURABENCH_DATABASE_URL" in printed
    assert "1 of 1 cell refused by workers" in printed
    assert states(server, "misplaced") == ["FAILED"] * 3
    assert (simulation.calls.total(), other.exists()) == (0, False)

    with run_workers(server, 2):
        expect(server, begin(server, **changes))
    assert resolved(server, "misplaced") == {"mini": 1}
    assert set(simulation.calls.values()) == {1}
