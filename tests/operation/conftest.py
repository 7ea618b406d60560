"""A server as an operator makes it ready, and workers."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.operation.running import QUICK, kill_all, start_worker
from tests.servers.prefect_server import PrefectServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A server as an operator makes it ready."""
    with PrefectServer(tmp_path_factory.mktemp("installation")) as made:
        made.environment.update(QUICK)
        done = made.run("durabench", "setup")
        assert done.returncode == 0, done.stderr
        made.prefect("deploy", "--all")
        yield made


@pytest.fixture
def workers(server: PrefectServer) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two workers."""
    started = [start_worker(server) for _ in range(2)]
    yield started
    for worker in started:
        kill_all(worker)
