"""A benchmark that is paused, cancelled and resumed at random moments."""

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import samples
from tests.operation.running import begin, declared, expect, order, resolved, state, wait_until
from tests.operation.storms import arms, results
from tests.operation.test_no_call_after_a_stop import CANCELLING, lake_is_still
from tests.operation.test_pausing import SUSPENDED, processes
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Call, Simulation

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

SKILLED = ["0.5", "1.0"]
INSTANCES = 9

LONGEST_S = 9.0
"""A stop comes this long after a flow run has begun, at the latest: shards work by then."""

PAUSED = {
    "type": "PAUSED",
    "state_details": {"pause_reschedule": False, "pause_timeout": "2099-01-01T00:00:00Z"},
}
"""Prefect's other pause, which expects the process to wait."""

STOPS = [SUSPENDED, PAUSED, CANCELLING]
"""Each of them comes once, in random order."""

STOPPED = {"PAUSED", "CANCELLED"}
ENDED = {"COMPLETED", "FAILED", "CRASHED"}


def content(api_base: str) -> dict[str, Any]:
    """Return what all runs declare alike."""
    return {
        "arms": arms(api_base, SKILLED),
        "select": {"sample": INSTANCES},
        "concurrency": 4,
    }


@dataclass(frozen=True)
class Undisturbed:
    """The results of a run without stops, and how often it asked for each answer."""

    results: dict[tuple[str, str], tuple[Any, ...]]
    calls: Counter[Call]


@pytest.fixture(scope="module")
def undisturbed(server: PrefectServer, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Run the experiment in one process, without stops."""
    here, simulation = server.apart(tmp_path_factory.mktemp("undisturbed")), Simulation()
    with OpenAIServer(simulation, keep_requests=False) as model:
        calm = begin(here, name="undisturbed", execution="local", **content(model.url))
        expect(here, calm)
    assert resolved(here, "undisturbed")["skill-1.0"] == INSTANCES
    return Undisturbed(results(here, "undisturbed", SKILLED), simulation.calls)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("execution", ["local", "distributed"])
def test_stops_at_random_moments_change_nothing(
    server: PrefectServer,
    undisturbed: Undisturbed,
    simulation: Simulation,
    api_base: str,
    tmp_path: Path,
    execution: str,
) -> None:
    """No call is repeated or lost, and every cell has the result of an undisturbed run."""
    here = server.apart(tmp_path)
    lake = tmp_path / "lake"
    simulation.latency_s = 1.0
    rng = random.Random(f"{samples.NUMBER} {execution}")
    name = f"stops-{execution}"
    stopped = declared(name=name, execution=execution, **content(api_base))
    parameters = {"experiment": stopped, "lake": str(lake)}
    run = order(server, "benchmark", parameters)
    stops = rng.sample(STOPS, len(STOPS))
    print(f"{execution}: {', '.join(each['type'] for each in stops)}")
    for asked in stops:
        wait_until(lambda: state(server, run) in {"RUNNING", *ENDED})  # noqa: B023
        time.sleep(rng.uniform(0, LONGEST_S))
        assert state(server, run) not in ENDED
        server.post(f"/flow_runs/{run}/set_state", {"state": asked})
        wait_until(lambda: state(server, run) in STOPPED | ENDED)  # noqa: B023
        wait_until(lambda: lake_is_still(lake))
        if state(server, run) == "PAUSED":
            # Prefect's worker ends if it takes a flow run again of which it still has the process.
            wait_until(lambda: not processes(run))  # noqa: B023
            server.post(f"/flow_runs/{run}/resume", {})
        else:
            run = order(server, "benchmark", parameters)
    wait_until(lambda: state(server, run) in ENDED, 600)
    assert state(server, run) == "COMPLETED"
    assert set(simulation.calls.values()) == {1}
    assert simulation.calls == undisturbed.calls
    assert results(here, name, SKILLED) == undisturbed.results
