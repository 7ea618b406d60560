"""Fixtures: prepared Prefect servers on SQLite and PostgreSQL, workers, and a counting model."""

import asyncio
from collections.abc import Iterator

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.server.setup import SetupRequest, set_up
from tests.operation.running import QUICK, run_workers
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation
from tests.timing import as_variables

ZOMBIE_S = 50.0
"""Longer than the interval of heartbeats, which is at most 30 seconds."""

PENDING_S = 60.0
"""Enough for three shards to start at the same time on a busy machine."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Yield a server that is prepared as by an operator. Each test uses its own experiment name."""
    with PrefectServer.prepared(tmp_path_factory.mktemp("installation")) as made:
        made.environment |= {**QUICK, "OPENAI_API_KEY": "throw-away"}
        yield made


@pytest.fixture
def workers(server: PrefectServer) -> Iterator[None]:
    """Run two workers during the test."""
    with run_workers(server, 2):
        yield


@pytest.fixture(scope="session")
def restartable() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that a test may restart; only `on_postgres` uses it."""
    with PostgresServer() as made:
        yield made


@pytest.fixture(scope="session")
def on_postgres(
    tmp_path_factory: pytest.TempPathFactory, restartable: PostgresServer
) -> Iterator[PrefectServer]:
    """Yield a prepared Prefect server on PostgreSQL, with a journal on PostgreSQL for the workers.

    Its programs give up the flow runs of a killed worker after a short time.
    """
    own = restartable.create_database("asyncpg")
    folder = tmp_path_factory.mktemp("installation")
    with PrefectServer(folder, PREFECT_API_DATABASE_CONNECTION_URL=own) as made:
        made.environment |= {
            **QUICK,
            **as_variables(pending_s=PENDING_S),
            "DURABENCH_DATABASE_URL": restartable.create_database(),
            "OPENAI_API_KEY": "throw-away",
        }
        with temporary_settings({PREFECT_API_URL: made.url}):
            asyncio.run(set_up(SetupRequest(zombie_s=ZOMBIE_S)))
        made.prefect("deploy", "--all")
        yield made


@pytest.fixture
def simulation() -> Simulation:
    """Return a model that counts its calls, which are slow enough to be interrupted by a kill."""
    return Simulation(latency_s=0.5)


@pytest.fixture
def api_base(simulation: Simulation) -> Iterator[str]:
    """Yield the URL of the counting model's API."""
    with OpenAIServer(simulation, keep_requests=False) as made:
        yield made.url
