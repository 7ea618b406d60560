"""Network failures between a benchmark and its model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.durability.faults.program import (
    BEFORE_THE_PAUSE,
    HOST_INSTANCES,
    TURNS,
    CountedAnswers,
    Program,
    experiment,
    reported,
    results,
)
from tests.servers.cable import Cable
from tests.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.full,
]

CALLS = len(HOST_INSTANCES) * len(TURNS)

WORDS = {
    "cut": "not sent: All connection attempts failed",
    "silent": "timeout: the request took longer",
}
"""The fault and how it is reported, by name."""

TIMEOUT_S = 2
"""Time limit of a model call."""

BREAKS: dict[str, Callable[[Cable], None]] = {"cut": Cable.cut, "silent": Cable.silence}


@pytest.fixture
def cable(model_server: OpenAIServer) -> Cable:
    """Return a connection to the model that can be broken."""
    return Cable(int(model_server.url.split(":")[2].split("/")[0]))


def benchmark(folder: Path, cable: Cable, home: dict[str, str], max_retries: int) -> Program:
    """Return a run of three concurrent instances whose model is behind the cable."""
    url = f"http://127.0.0.1:{cable.port}/v1"
    declared = experiment("host", HOST_INSTANCES, url, timeout_s=TIMEOUT_S, max_retries=max_retries)
    return Program(folder, declared, home)


@pytest.mark.parametrize(("fault", "words"), WORDS.items())
def test_a_network_that_stays_down_is_reported_and_the_next_run_resumes(
    fault: str,
    words: str,
    answers: CountedAnswers,
    cable: Cable,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """When retries are exhausted, the run ends with broken infrastructure.

    The next run repeats only calls without a recorded answer.
    """
    program = benchmark(tmp_path, cable, shared_prefect, max_retries=1)
    answers.once(BEFORE_THE_PAUSE + 1, lambda: BREAKS[fault](cable))
    reported(program.run(), "infrastructure: ", words, "(after 1 retry)")
    asked = answers.asked.copy()
    settled = program.settled_calls()
    assert 0 < settled < CALLS
    # Each conversation has at most one call in flight when the connection breaks.
    assert settled < asked.total() <= settled + len(HOST_INSTANCES)
    assert max(asked.values()) == 1
    assert {row["outcome"] for row in results(program.store).values()} == {"infrastructure"}

    cable.mend()
    ended = program.run()
    assert ended.code == 0, ended.output
    assert (answers.asked - asked).total() == CALLS - settled
    assert results(program.store) == undisturbed
    assert program.billed_calls() >= answers.asked.total()
