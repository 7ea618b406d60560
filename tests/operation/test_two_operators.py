"""Two operators who run one experiment at the same time, each in a separate process."""

from pathlib import Path
from typing import Any

import pytest

from flows.server.events import FINISHED, INFRASTRUCTURE, resource_id
from flows.storage.lake import Lake
from tests.operation.running import begin, expect, report, wait_until
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

CELLS = 4


def events(server: PrefectServer, name: str) -> list[dict[str, Any]]:
    """Return the events of that name about the experiment `both`."""
    about = {"resource": {"id": [resource_id("both")]}}
    chosen = {"filter": {"event": {"name": [name]}, **about}, "limit": 50}
    found: list[dict[str, Any]] = server.post("/events/filter", chosen)["events"]
    return found


def test_two_operators_share_the_cells_and_both_finish(
    server: PrefectServer, tmp_path: Path
) -> None:
    """Two concurrent runs share the cells: each call is sent once and each patch graded once.

    A cell that the other run holds is no failure.
    """
    simulation = Simulation(latency_s=0.3)
    server = server.apart(tmp_path)
    with OpenAIServer(simulation) as models:
        model = {"provider": "litellm", "name": "openai/skill-1", "api_base": models.url}
        arms = [{"name": "mini", "agent": "mini", "model": model}]
        chosen = {
            "name": "both",
            "execution": "local",
            "select": {"slice": f"0:{CELLS}"},
            "arms": arms,
            "concurrency": 2,
            "audit": True,
        }
        first, second = (begin(server, **chosen) for _ in range(2))
        wait_until(lambda: models.began)
        for each in (first, second):
            expect(server, each)
            assert f"[{CELLS}/{CELLS}]" in server.printed(each)
        printed = server.printed(first) + server.printed(second)
        assert "another run is working on it; waiting for its result" in printed
        assert "infrastructure" not in printed
        wait_until(lambda: len(events(server, FINISHED)) == 2)
        assert events(server, INFRASTRUCTURE) == []
        [arm] = report(server, "both").arms
    assert set(simulation.calls.values()) == {1}
    assert (arm.resolved, arm.planned) == (CELLS, CELLS)
    lake = Lake.existing(server.folder / "lake")
    attempts, evaluations = lake.rows("attempts", "both"), lake.rows("evaluations", "both")
    assert [row["outcome"] for row in attempts] == ["submitted"] * CELLS
    assert sum(row["model_calls"] for row in attempts) == simulation.calls.total()
    assert [row["gradings"] for row in evaluations] == [2] * CELLS
