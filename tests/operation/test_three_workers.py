"""Three workers with PostgreSQL for Prefect and the journal: killed, and it restarted."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.server.setup import Wanted, set_up
from flows.storage.lake import Lake
from tests.operation.running import (
    IN_FLIGHT,
    QUICK,
    begin,
    expect,
    kill_all,
    resolved,
    start_worker,
    states,
    wait_until,
)
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

WORKERS = 3
SKILLS = ["0.2", "0.5", "0.8", "1.0"]
INSTANCES = 12
KILL_EVERY_S, KILL_FOR_S = 10.0, 60.0
ZOMBIE_S = 50.0
"""Heartbeats come every 30 seconds at most."""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, database: PostgresServer
) -> Iterator[PrefectServer]:
    """A Prefect server on PostgreSQL, made ready, with a journal on PostgreSQL for the workers."""
    own = database.create_database("asyncpg")
    folder = tmp_path_factory.mktemp("installation")
    with PrefectServer(folder, PREFECT_API_DATABASE_CONNECTION_URL=own) as made:
        made.environment |= {
            **QUICK,
            "DURABENCH_DATABASE_URL": database.create_database(),
            "OPENAI_API_KEY": "none",
        }
        with temporary_settings({PREFECT_API_URL: made.url}):
            asyncio.run(set_up(Wanted(zombie_s=ZOMBIE_S)))
        made.prefect("deploy", "--all")
        yield made


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return Simulation(latency_s=0.5)


@pytest.fixture(scope="module")
def api_base(simulation: Simulation) -> Iterator[str]:
    with OpenAIServer(simulation, keep_requests=False) as made:
        yield made.url


def arms(api_base: str) -> list[dict[str, Any]]:
    return [
        {
            "name": f"skill-{skill}",
            "agent": "mini",
            "model": {
                "name": f"openai/skill-{skill}",
                "api_base": api_base,
                "input_cost_per_token": 1e-6,
                "output_cost_per_token": 1e-5,
            },
        }
        for skill in SKILLS
    ]


def came_to(server: PrefectServer, name: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """By arm and instance: outcome, calls, tokens and cost of the attempt, and the verdict."""
    lake = Lake.existing(server.folder / "lake")
    verdicts = {row["attempt_id"]: row["outcome"] for row in lake.rows("evaluations", name)}
    return {
        (arm, row["instance_id"]): (
            row["outcome"],
            row["model_calls"],
            row["input_tokens"],
            row["output_tokens"],
            round(row["cost_usd"], 9),
            verdicts[row["attempt_id"]],
        )
        for arm in (f"skill-{skill}" for skill in SKILLS)
        for unit in lake.units("attempts", "*", name, arm)
        for row in lake.read("attempts", name, arm, unit)
    }


def test_workers_are_killed_all_the_time_and_nothing_changes(
    server: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """48 cells: what they come to is what they come to in one process, and the server of the
    model was asked at most once more for each call that was in flight when a worker was killed.
    """
    declared = {"arms": arms(api_base), "select": {"sample": INSTANCES}, "concurrency": 9}
    workers = [start_worker(server) for _ in range(WORKERS)]
    kills = 0
    try:
        running = begin(server, name="stormy", **declared)
        wait_until(lambda: "RUNNING" in states(server, "stormy"))
        until = time.monotonic() + KILL_FOR_S
        for number in itertools.cycle(range(WORKERS)):
            time.sleep(KILL_EVERY_S)
            if time.monotonic() > until:
                break
            kill_all(workers[number])
            kills += 1
            workers[number] = start_worker(server)
        expect(server, running)
    finally:
        for worker in workers:
            kill_all(worker)
    stormy, asked = came_to(server, "stormy"), simulation.calls.copy()
    simulation.calls.clear()
    expect(server, begin(server, name="calm", execution="local", **declared))
    assert len(stormy) == len(SKILLS) * INSTANCES
    assert stormy == came_to(server, "calm")
    assert asked.keys() == simulation.calls.keys()
    assert kills >= KILL_FOR_S // KILL_EVERY_S - 1
    assert asked.total() - simulation.calls.total() <= kills * IN_FLIGHT


def test_the_database_is_restarted(
    server: PrefectServer, database: PostgresServer, simulation: Simulation, api_base: str
) -> None:
    """Server, workers and cells go on when it is back, and nothing is asked twice. A flow run that
    was beginning at that moment may crash, and another takes its place."""
    before = simulation.calls.copy()
    worker = start_worker(server)
    try:
        running = begin(server, name="restarted", arms=arms(api_base)[-1:], select={"sample": 3})
        wait_until(lambda: "RUNNING" in states(server, "restarted"))
        database.restart(away_s=5)
        expect(server, running)
    finally:
        kill_all(worker)
    assert resolved(server, "restarted") == {"skill-1.0": 3}
    ended = Counter(states(server, "restarted"))
    assert ended.pop("COMPLETED") == 3
    assert ended.keys() <= {"CRASHED"}
    assert set((simulation.calls - before).values()) == {1}
