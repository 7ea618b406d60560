"""What several suites share: Docker, and where the real data lies."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.timings import timings
from tests import samples
from tests.servers.postgres import PostgresServer, require_postgres
from tests.timing import as_variables

REQUIRE_DOCKER = "DURABENCH_REQUIRE_DOCKER"
"""Where this is set, a Docker test that cannot run fails instead of being skipped."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first: at the end the processes of a test run come to their ends together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_report_header() -> str:
    """Say which sample this is, and how to repeat it."""
    return f"sample: {samples.VARIABLE}={samples.number()}"


@pytest.fixture(scope="session")
def docker_client() -> Iterator[Any]:
    """A client of a running Docker daemon."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        reason = f"no Docker daemon answers: {error}"
        if os.environ.get(REQUIRE_DOCKER):
            pytest.fail(reason)
        pytest.skip(reason)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _docker_marker(request: pytest.FixtureRequest) -> None:
    """A test marked `docker` needs the daemon even if it does not ask for the client."""
    if request.node.get_closest_marker("docker"):
        request.getfixturevalue("docker_client")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real SWE-bench rows and runs, where the machine has one."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DURABENCH_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set DURABENCH_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def prefect() -> Iterator[None]:
    """A real Prefect server with a database of its own, once per test process."""
    # As a command does before it imports Prefect, which sets its logging up once.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    require_postgres()
    with PostgresServer() as server:
        yield server


@pytest.fixture
def set_timings() -> Iterator[Callable[..., None]]:
    """A function that sets fields of `Timings` for this test and the programs it starts."""
    with pytest.MonkeyPatch.context() as patch:

        def set_(**seconds: float) -> None:
            for name, value in as_variables(**seconds).items():
                patch.setenv(name, value)
            timings.cache_clear()

        yield set_
    timings.cache_clear()
