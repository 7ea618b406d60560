"""A full disk under the lake during a benchmark."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.disks import SmallDisk, mounted
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
from tests.timing import as_variables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.full,
]

CALLS = len(HOST_INSTANCES) * len(TURNS)
PATIENCE_S = 20
"""Time after which the program stops waiting for free space."""
REPORTED_WITHIN_S = 3 * PATIENCE_S
"""All cells must wait at the same time, not in turn; starting and reporting take the rest."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mount a small disk."""
    with mounted(tmp_path / "disk") as disk:
        yield disk


def benchmark(
    folder: Path, model: OpenAIServer, disk: SmallDisk, shared_prefect: dict[str, str]
) -> Program:
    """Return a run of three concurrent instances whose lake and journal are on the small disk."""
    declared = experiment("host", HOST_INSTANCES, model.url)
    variables = {**shared_prefect, **as_variables(journal_patience_s=PATIENCE_S)}
    return Program(folder, declared, variables, lake=disk.folder / "lake")


def test_a_disk_that_stays_full_is_reported_and_the_next_run_resumes(
    disk: SmallDisk,
    answers: CountedAnswers,
    model_server: OpenAIServer,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """A full disk ends the run with one line and leaves the lake readable.

    The next run pays for no recorded call again.
    """
    program = benchmark(tmp_path, model_server, disk, shared_prefect)
    answers.once(BEFORE_THE_PAUSE, disk.fill)
    began = time.monotonic()
    reported(program.run(400), "infrastructure: ", "is full; free some space")
    assert time.monotonic() - began < REPORTED_WITHIN_S
    assert half_written(program.store) == []
    results(program.store)
    asked = answers.asked.copy()
    assert asked.total() < CALLS

    disk.free()
    settled = program.settled_calls()
    assert settled <= asked.total() <= settled + len(HOST_INSTANCES)
    ended = program.run()
    assert ended.code == 0, ended.output
    assert (answers.asked - asked).total() == CALLS - settled
    assert results(program.store) == undisturbed
    assert half_written(program.store) == []
    assert answers.asked.total() <= program.billed_calls()
