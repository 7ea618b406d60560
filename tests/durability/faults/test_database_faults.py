"""Outages of the journal's PostgreSQL server during a benchmark."""

import time
from collections.abc import Iterator
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
    half_written,
    reported,
    results,
)
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres import PostgresServer
from tests.timing import as_variables
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

CALLS = len(HOST_INSTANCES) * len(TURNS)
PATIENCE_S = 30
"""Time after which the program stops waiting for the database."""
REPORTED_WITHIN_S = 3 * PATIENCE_S
"""All cells must wait at the same time, not in turn; the report takes the rest."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Yield a server that tests may stop."""
    with PostgresServer() as server:
        yield server


def benchmark(
    folder: Path, model: OpenAIServer, url: str, shared_prefect: dict[str, str], **seconds: float
) -> Program:
    """Return a run of three concurrent instances with this journal and these timings."""
    declared = experiment("host", HOST_INSTANCES, model.url)
    variables = {**shared_prefect, **as_variables(**seconds), "DURABENCH_DATABASE_URL": url}
    return Program(folder, variables, declared=declared)


def test_a_database_that_stays_down_is_reported_and_the_next_run_resumes(
    postgres: PostgresServer,
    answers: CountedAnswers,
    model_server: OpenAIServer,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """A long outage ends the run; the next run repeats only the calls that were in flight."""
    url = postgres.create_database()
    limits = {"journal_patience_s": PATIENCE_S, "journal_contact_s": 2.0}
    program = benchmark(tmp_path, model_server, url, shared_prefect, **limits)
    answers.once(BEFORE_THE_PAUSE, lambda: postgres.stop("immediate"))
    running = program.start()
    wait_until(lambda: any(turn == BEFORE_THE_PAUSE for _, turn in answers.asked), seconds=90)
    began = time.monotonic()
    reported(running.result(400), "infrastructure: the journal at postgresql", "fails: ")
    assert time.monotonic() - began < REPORTED_WITHIN_S
    reported(program.run(), "durabench: the journal at postgresql", "fails: ")
    asked = answers.asked.copy()
    postgres.start()
    settled = program.settled_calls()
    assert settled <= asked.total() <= settled + len(HOST_INSTANCES)
    assert set(asked.values()) == {1}

    program.durabench(*program.command)
    assert (answers.asked - asked).total() == CALLS - settled
    assert results(program.lake) == undisturbed
    assert half_written(program.lake) == []
    assert answers.asked.total() <= program.billed_calls() <= CALLS + len(HOST_INSTANCES)
