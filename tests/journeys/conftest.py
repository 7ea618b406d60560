"""Each documented command, as a user runs it.

A journey names the commands that it types, as COMMANDS.md lists them:

@pytest.mark.journey("run", "export --atif")
def test_something(terminal: Terminal, environment: str) -> None: ...
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.command_line import Terminal
from tests.servers.prefect_server import PrefectServer

_HAS_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Remember that a test has passed, for its fixtures."""
    yield
    item.stash[_HAS_PASSED] = True


@pytest.fixture
def terminal(
    tmp_path: Path, prefect_server: PrefectServer, request: pytest.FixtureRequest
) -> Iterator[Terminal]:
    """Yield a terminal of a user whose commands share a Prefect server.

    A journey has to type each command that it names.
    """
    terminal = Terminal(tmp_path, {"PREFECT_API_URL": prefect_server.url})
    yield terminal
    mark = request.node.get_closest_marker("journey")
    if mark is not None and _HAS_PASSED in request.node.stash:
        typed = [set(arguments) for arguments in terminal.typed]
        named = [set(command.split()) for command in mark.args]
        assert [each for each in named if not any(each <= words for words in typed)] == []


@pytest.fixture(params=["host", pytest.param("docker", marks=pytest.mark.docker)])
def environment(request: pytest.FixtureRequest) -> str:
    """Return each environment in turn."""
    environment: str = request.param
    if environment == "docker":
        request.getfixturevalue("docker_client")
    return environment
