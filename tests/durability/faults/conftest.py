"""Fixtures for fault tests: a model that counts, and the results of an undisturbed run."""

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


@pytest.fixture
def answers() -> CountedAnswers:
    """What the model says, and how often it was asked."""
    return CountedAnswers()


@pytest.fixture
def model_server(answers: CountedAnswers) -> Iterator[OpenAIServer]:
    """A server with these answers."""
    with OpenAIServer(answers, keep_requests=False) as server:
        yield server


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variable that names a folder for Prefect's own database: making one takes 10 s."""
    return {"PREFECT_HOME": str(tmp_path_factory.mktemp("prefect"))}


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, prefect_home: dict[str, str]
) -> dict[str, Any]:
    """What the experiment comes to where nothing happens, by instance."""
    with OpenAIServer(CountedAnswers(), keep_requests=False) as server:
        declared = experiment("host", HOST_INSTANCES, server.url)
        program = Program(tmp_path_factory.mktemp("undisturbed"), declared, prefect_home)
        ended = program.run()
    assert ended.code == 0, ended.output
    found = results(program.store)
    assert sorted(found) == HOST_INSTANCES
    return found
