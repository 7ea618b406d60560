"""Fixtures and rules that all tests share: the tiers, the servers, and the real data.

`make test` runs every test except those marked `full`, and `make test-all` runs all. `make
test-unit` runs the tests marked `unit`. This module sets the mark `unit` on every test that uses
none of these:

* a mark `docker`, `full` or `slow`;
* a fixture of `PROGRAMS`, which starts a server or a container;
* a parameter that names such a fixture or PostgreSQL;
* a place in `WHOLE`, the suites in which whole programs run.

Git, shells and the tests of a repository may run in a unit test. This module sets the mark `full`
on every other test that is not a journey: servers and containers in depth.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from agent.timings import timings
from agent.workspaces.host import allow_interrupts
from flows.server.settings import CLIENTS
from tests import leftovers
from tests.servers.certificates import share_one_certificate
from tests.servers.postgres import PostgresServer, require_postgres
from tests.servers.prefect_home import copy_home, migrated, shared_homes
from tests.servers.prefect_server import CREDENTIALS, PrefectServer
from tests.timing import as_variables

REQUIRE_DOCKER = "DURABENCH_REQUIRE_DOCKER"
"""If this is set, a Docker test that cannot run fails instead of being skipped."""


PROGRAMS = frozenset(
    {
        "docker_client",
        "finished",
        "opener",
        "postgres",
        "prefect",
        "prefect_server",
        "server",
        "store",
    }
)
"""Fixtures behind which servers and containers run."""

WHOLE = frozenset({"durability", "operation", "walkthrough"})
"""Folders of `tests` whose tests run whole programs."""

# A busy machine is no defect of an example. The time limit of the whole test stays.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

_HARNESS = pytest.StashKey[tuple[Any, Any]]()
"""Prefect's settings with the server of the fixture `prefect`, and the same without a server.

They are there once a test has used the fixture.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what all programs of the test run share."""
    _heed_interrupts()
    os.environ[CLIENTS] = CREDENTIALS  # for clients in this process
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(leftovers)
        homes = ExitStack()
        homes.enter_context(shared_homes())
        config.add_cleanup(homes.close)
        share_one_certificate()


def _heed_interrupts() -> None:
    """Handle interrupts also in a test run that a shell has started in the background.

    A shell lets its background processes ignore interrupts. What the tests start must not, so each
    start would fork all memory of this process (`allow_interrupts` in agent/workspaces/host.py).
    """
    if (heed := allow_interrupts()) is not None:
        heed()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with its tier."""
    if is_unit(item):
        item.add_marker("unit")
    elif "journeys" not in item.path.parts:
        item.add_marker("full")


@pytest.hookimpl(trylast=True)  # after the tests were brought into random order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the short files last, so that all processes of a test run end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("unit") is not None)


def is_unit(item: pytest.Item) -> bool:
    """Return True if a test needs no server, no container and no slow programs."""
    return (
        not any(item.get_closest_marker(name) for name in ("docker", "full", "slow"))
        and _list_needs(item).isdisjoint(PROGRAMS | {"postgresql"})
        and WHOLE.isdisjoint(item.path.parts)
    )


def _list_needs(item: pytest.Item) -> set[str]:
    """Return the names of a test's fixtures, and its parameters, which can name others."""
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    texts = (value for value in parameters if isinstance(value, str))
    return {*getattr(item, "fixturenames", ()), *texts}


@pytest.fixture(scope="session")
def docker_client() -> Iterator[Any]:
    """Yield a client of the running Docker daemon."""
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
    """Require the daemon for tests marked `docker` that do not use the client."""
    if request.node.get_closest_marker("docker"):
        request.getfixturevalue("docker_client")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real SWE-bench rows and runs, or skip the test if there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DURABENCH_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set DURABENCH_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def prefect(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[None]:
    """Run a real Prefect server with its own database, once per test process."""
    # Commands set this before they import Prefect, which configures logging only once.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    from prefect.context import get_settings_context
    from prefect.settings import PREFECT_API_URL
    from prefect.testing import utilities

    from flows.server.api import VARIABLES

    folder = tmp_path_factory.mktemp("harness")
    copy_home("migrated", migrated, folder / "home")
    (folder / "home/prefect.db").rename(folder / "prefect-test.db")  # its name in the harness
    with ExitStack() as stack:
        with (
            mock.patch.object(utilities, "mkdtemp", return_value=str(folder)),
            mock.patch.dict(os.environ, VARIABLES),  # as for the server that a command starts
        ):
            stack.enter_context(utilities.prefect_test_harness(server_startup_timeout=120))
        inside = get_settings_context().settings
        outside = inside.copy_with_update(restore_defaults={PREFECT_API_URL})
        pytestconfig.stash[_HARNESS] = (inside, outside)
        yield


@pytest.fixture(autouse=True)
def _without_prefect(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test without the fixture `prefect` find no server, whatever ran before it."""
    with ExitStack() as stack:
        harness = request.config.stash.get(_HARNESS, None)
        if harness is not None and "prefect" not in request.fixturenames:
            from prefect.context import SettingsContext, get_settings_context

            inside, outside = harness  # Prefect's own way would make the settings for each test
            context = get_settings_context()
            if context.settings is inside:
                stack.enter_context(SettingsContext(profile=context.profile, settings=outside))
        yield


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Yield a Prefect server as an operator runs it. All tests of this process share it."""
    with PrefectServer(tmp_path_factory.mktemp("prefect-server")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that all tests of this process share."""
    require_postgres()
    with PostgresServer() as server:
        yield server


@pytest.fixture
def set_timings() -> Iterator[Callable[..., None]]:
    """Yield a function that sets fields of `Timings` for this test and the programs it starts."""
    with pytest.MonkeyPatch.context() as patch:

        def set_(**seconds: float) -> None:
            for name, value in as_variables(**seconds).items():
                patch.setenv(name, value)
            timings.cache_clear()

        yield set_
    timings.cache_clear()


@pytest.fixture
def idle_at_once(set_timings: Callable[..., None]) -> None:
    """Make an attempt give everything back as soon as it waits for a person."""
    set_timings(idle_s=0)
