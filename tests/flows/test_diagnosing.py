"""A diagnosis leads from failing tests to the step that wrote the lines, and to a fork."""

import asyncio
import json
import shlex

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.experiments import forking
from flows.experiments.diagnosis import Subject, diagnose
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture
async def lake(finished: Finished, lake_path: str) -> Lake:
    """Return a lake in which `able` resolves what `unable` does not."""
    return await finished.copy(trial(), lake_path)


def ids(lake: Lake, arm: str) -> list[str]:
    return lake.units("attempts", "*", "trial", arm)


def subject(lake: Lake, attempt_id: str) -> Subject:
    journal = open_journal(lake)
    attempt = journal.attempt(attempt_id)
    assert attempt is not None
    return Subject(lake, journal, attempt)


async def test_the_command_explains_a_failure_and_names_a_fork(lake: Lake) -> None:
    """It names the failing tests, the step that wrote the file, a resolved attempt and a fork."""
    [attempt_id, *_] = ids(lake, "unable")
    known = subject(lake, attempt_id)
    arguments = ["diagnose", attempt_id[:12], "--lake", str(lake.root)]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, result.output
    assert known.verdict is not None
    failing = [*known.verdict["fail_to_pass_failure"], *known.verdict["pass_to_pass_failure"]]
    assert all(name in result.stdout for name in failing[:5])
    assert known.verdict["reason"] in result.stdout
    failed, origin, _, difference, after = diagnose(known, str(lake.root))
    assert failed.lines[0].startswith("The verdict is unresolved")
    writer, caller = origin.steps[:2]
    tree = {step.place: step.tree for step in known.steps}
    assert tree[writer] is not None
    assert f"step {writer}" in origin.lines[0]
    assert f"asked for by call {caller}" in origin.lines[0]
    assert difference.lines[0].startswith("able, attempt ")
    program, command, prefix, at, place, *_ = shlex.split(after.command)
    assert (program, command, at) == ("durabench", "fork", "--at")
    assert after.command in result.stdout
    assert forking.check(prefix, place, str(lake.root)).parent.attempt_id == attempt_id


async def test_an_attempt_that_its_own_arm_rejected_is_explained(lake: Lake) -> None:
    """The reasons of the arm are told, although the patch is resolved."""
    known = subject(lake, ids(lake, "able")[0])
    final = {"broken": ["test_a"], "reasons": ["A criterion is open."], "issues": []}
    report = {"agent_verdict": "rejected", "workflow_status": "out_of_turns", "finals": [final]}
    assert known.row is not None
    known.__dict__["row"] = {**known.row, "report": json.dumps(report)}
    [part] = diagnose(known)
    assert part.lines == (
        "The arm ended as out_of_turns and rejects its patch.",
        "Tests that its change broke: test_a.",
        "A criterion is open.",
    )
