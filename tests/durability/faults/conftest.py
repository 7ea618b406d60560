"""Fixtures for fault tests: a model that counts its calls, and the undisturbed results."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.durability.faults.program import (
    HOST_INSTANCES,
    CountedAnswers,
    Program,
    experiment,
    results,
)
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefect_server import PrefectServer


@pytest.fixture
def answers() -> CountedAnswers:
    """Return the script of the model, which counts its calls."""
    return CountedAnswers()


@pytest.fixture
def model_server(answers: CountedAnswers) -> Iterator[OpenAIServer]:
    """Yield a model server with these answers."""
    with OpenAIServer(answers, keep_requests=False) as server:
        yield server


@pytest.fixture(scope="session")
def shared_prefect(prefect_server: PrefectServer) -> dict[str, str]:
    """Return a throw-away key, and the variables that name a Prefect server for all programs."""
    names = ("PREFECT_HOME", "PREFECT_API_URL")
    server = {name: prefect_server.environment[name] for name in names}
    return {"OPENAI_API_KEY": "throw-away", **server}


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, shared_prefect: dict[str, str]
) -> dict[str, Any]:
    """Run the experiment without faults and return the results by instance."""
    with OpenAIServer(CountedAnswers(), keep_requests=False) as server:
        declared = experiment("host", HOST_INSTANCES, server.url)
        program = Program(tmp_path_factory.mktemp("undisturbed"), shared_prefect, declared=declared)
        program.durabench(*program.command)
    found = results(program.lake)
    assert sorted(found) == HOST_INSTANCES
    return found
