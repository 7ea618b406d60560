"""Network failures between a benchmark and its model."""

import time
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CALLS = len(HOST_INSTANCES) * len(TURNS)

TIMEOUT_S = 2
"""What the model gets for an answer."""

BREAKS: dict[str, Callable[[Cable], None]] = {"cut": Cable.cut, "silent": Cable.silence}


@pytest.fixture
def cable(model_server: OpenAIServer) -> Cable:
    """A line to the model."""
    return Cable(int(model_server.url.split(":")[2].split("/")[0]))


def benchmark(folder: Path, cable: Cable, home: dict[str, str], max_retries: int) -> Program:
    """Three instances at once."""
    url = f"http://127.0.0.1:{cable.port}/v1"
    declared = experiment("host", HOST_INSTANCES, url, timeout_s=TIMEOUT_S, max_retries=max_retries)
    return Program(folder, declared, home)


@pytest.mark.parametrize(
    ("fault", "words"), [("cut", "connection: "), ("silent", "timeout: the request took longer")]
)
def test_a_network_that_stays_away_is_reported_and_gone_on_from(
    fault: str,
    words: str,
    answers: CountedAnswers,
    cable: Cable,
    undisturbed: dict[str, Any],
    prefect_home: dict[str, str],
    tmp_path: Path,
) -> None:
    """Retries by class, then infrastructure; the next run asks only for what was never settled."""
    program = benchmark(tmp_path, cable, prefect_home, max_retries=1)
    answers.once(BEFORE_THE_PAUSE + 1, lambda: BREAKS[fault](cable))
    reported(program.run(), "infrastructure: ", words, "(after 1 retries)")
    asked = answers.asked.copy()
    settled = program.settled_calls()
    assert 0 < settled < CALLS
    # Each conversation can have one call at a time on the line that broke.
    assert settled < asked.total() <= settled + len(HOST_INSTANCES)
    assert max(asked.values()) == 1
    assert {row["outcome"] for row in results(program.store).values()} == {"infrastructure"}

    cable.mend()
    ended = program.run()
    assert ended.code == 0, ended.output
    assert (answers.asked - asked).total() == CALLS - settled
    assert results(program.store) == undisturbed
    assert program.billed_calls() >= answers.asked.total()


@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_a_network_that_comes_back_is_waited_for(
    fault: str,
    answers: CountedAnswers,
    cable: Cable,
    undisturbed: dict[str, Any],
    prefect_home: dict[str, str],
    tmp_path: Path,
) -> None:
    """The run that met it ends as if nothing had happened; only what was in flight is repeated."""
    program = benchmark(tmp_path, cable, prefect_home, max_retries=8)
    answers.once(BEFORE_THE_PAUSE + 1, lambda: BREAKS[fault](cable))
    running = program.start()
    running.until(lambda: any(turn == BEFORE_THE_PAUSE + 1 for _, turn in answers.asked))
    before = answers.asked.total()
    time.sleep(TIMEOUT_S + 1)  # or an answer that was only late would still be taken
    cable.mend()
    ended = running.wait()
    assert ended.code == 0, ended.output
    assert results(program.store) == undisturbed
    assert before < CALLS < answers.asked.total() <= CALLS + len(HOST_INSTANCES)
    assert program.settled_calls() == CALLS
