"""Each documented command, as a user runs it."""

from pathlib import Path

import pytest

from tests.journeys.command_line import Terminal
from tests.servers.prefect_server import PrefectServer


@pytest.fixture
def terminal(tmp_path: Path, prefect_server: PrefectServer) -> Terminal:
    """Return a terminal of a user whose commands share a Prefect server."""
    return Terminal(tmp_path, {"PREFECT_API_URL": prefect_server.url})


@pytest.fixture(params=["host", pytest.param("docker", marks=pytest.mark.docker)])
def environment(request: pytest.FixtureRequest) -> str:
    """Return each environment in turn."""
    environment: str = request.param
    if environment == "docker":
        request.getfixturevalue("docker_client")
    return environment
