"""Code shared by several suites: the three tiers, the servers, and the location of the real data.

`make test-unit` runs the tests marked `unit`, `make test` all except those marked `full`, and `make
test-all` every test. `full` is set by hand, on tests of which `make test` has a sample. `unit` is
set here, on every test that uses none of these:

* a mark `docker`, `full` or `slow`;
* a fixture of `PROGRAMS`, which starts a server, a container, git or the tests of a repository;
* a parameter that names such a fixture or PostgreSQL;
* a place in `WHOLE`, the suites in which whole programs run.
"""

import os
from collections import defaultdict
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


PROGRAMS = frozenset(
    {
        "docker_client",
        "evaluate",
        "finished",
        "host",
        "host_shell",
        "opener",
        "postgres",
        "prefect",
        "prefect_server",
        "repositories",
        "repository",
        "server",
        "solve",
        "store",
        "workspace",
    }
)
"""Fixtures behind which other programs run."""

WHOLE = frozenset({"durability", "operation", "walkthrough"})
"""Folders of `tests` whose tests run whole programs."""

TIMEOUT_S = 300.0
"""The time limit of a test that has none of its own, as in pyproject.toml."""


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the unit tests, and put the files that may take longest first.

    The processes of a test run take one file after another, as what is started for a file is
    shared by its tests. They end together when only short files are left at the end.
    """
    longest_s: dict[Path, float] = defaultdict(float)
    for item in items:
        if is_unit(item):
            item.add_marker("unit")
        longest_s[item.path] = max(longest_s[item.path], _may_take_s(item))
    items.sort(key=lambda item: -longest_s[item.path])


def is_unit(item: pytest.Item) -> bool:
    """Whether a test needs neither a server nor a container nor programs that take long."""
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    used = {*getattr(item, "fixturenames", ()), *(p for p in parameters if isinstance(p, str))}
    return (
        not any(item.get_closest_marker(name) for name in ("docker", "full", "slow"))
        and used.isdisjoint(PROGRAMS | {"postgresql"})
        and WHOLE.isdisjoint(item.path.parts)
    )


def _may_take_s(item: pytest.Item) -> float:
    """The time limit of a slow test; that of another says nothing."""
    if item.get_closest_marker("slow") is None:
        return 0.0
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0]) if limit else TIMEOUT_S


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
