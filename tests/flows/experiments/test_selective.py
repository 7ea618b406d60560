"""A selective fork reuses what does not depend on the change, and buys the rest."""

import asyncio
from pathlib import Path

import pytest

from flows.display.errors import UsageError
from flows.experiments import selective
from flows.experiments.selective import Changes
from flows.solve import solve
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

SIMULATED = {"provider": "simulated", "skill": 1}


@pytest.fixture
async def attempt_id(finished: Finished, lake_path: str) -> str:
    """Return the id of a finished attempt of the durable arm in the lake."""
    arms = [{"name": "lean", "agent": "durable", "model": SIMULATED}]
    lake = await finished.copy(trial(arms=arms, primary=None, select={"sample": 1}), lake_path)
    [found] = lake.units("attempts", "*")
    return found


async def forked(attempt_id: str, lake_path: str, changes: Changes) -> tuple[str, str]:
    """Return the id of a fork that was run, and what it reused and bought."""
    request = selective.check(attempt_id[:12], lake_path, changes)
    made = await asyncio.to_thread(selective.fork, request)
    await solve(made.experiment, made.attempt.instance_id, made.attempt.arm, lake=lake_path)
    journal = open_journal(request.lake)
    child = made.attempt.attempt_id
    return child, selective.summarise_fork(journal, request.parent, child)


@pytest.mark.full
async def test_a_change_that_concerns_no_step_buys_nothing(attempt_id: str, lake_path: str) -> None:
    """A command that is never reused and never used leaves everything as it was."""
    changes = Changes({}, {}, ["no such command"])
    told = selective.check(attempt_id, lake_path, changes).forecast()
    child, used = await forked(attempt_id, lake_path, changes)
    journal = open_journal(Lake.existing(lake_path))
    whole, account = journal.account(attempt_id), journal.account(child)
    assert f"at most 0 of {whole.calls_billed} calls" in told
    assert (account.calls_billed, account.billed_usd) == (0, 0.0)
    assert account.calls_credited == whole.calls_credited
    assert all(step.copied for step in journal.steps(child))
    assert used.startswith(f"calls: reused {whole.calls_billed} (")
    lake = Lake.existing(lake_path)
    [old], [new] = (lake.find("predictions", unit) for unit in (attempt_id, child))
    assert new["model_patch"] == old["model_patch"]


async def test_mistakes_are_refused_in_one_line(
    attempt_id: str, lake_path: str, tmp_path: Path
) -> None:
    """A change of nothing, an absent step and a file that is no result are refused."""
    file = tmp_path / "result.txt"
    file.write_text("no JSON")
    with pytest.raises(UsageError, match="changes nothing of attempt"):
        selective.check(attempt_id, lake_path, Changes({"model": SIMULATED}, {}))
    with pytest.raises(UsageError, match="has no step 99"):
        selective.check(attempt_id, lake_path, Changes({}, {"99": file}))
    with pytest.raises(UsageError, match="is not a regular expression"):
        selective.check(attempt_id, lake_path, Changes({}, {}, ["("]))
    steps = open_journal(Lake.existing(lake_path)).steps(attempt_id)
    tool = next(step for step in steps if step.kind == "action" and b'"tool"' in step.request)
    with pytest.raises(UsageError, match="is not a result of step"):
        selective.check(attempt_id, lake_path, Changes({}, {tool.place: file}))


async def test_an_edited_reply_is_kept_and_what_follows_is_bought(
    attempt_id: str, lake_path: str, tmp_path: Path
) -> None:
    """An edited reply is credited as edited, and the calls that follow from it are bought."""
    journal = open_journal(Lake.existing(lake_path))
    calls = [step for step in journal.steps(attempt_id) if step.kind == "model"]
    second = sorted(calls, key=lambda step: step.ordinal)[1]
    file = tmp_path / "reply.txt"
    file.write_text("I have to think again.")
    changes = Changes({}, {second.place: file})
    told = selective.check(attempt_id, lake_path, changes).forecast()
    child, _ = await forked(attempt_id, lake_path, changes)
    steps = {step.place: step for step in journal.steps(child)}
    edited = steps[second.place]
    assert edited.copied
    assert b"I have to think again." in (edited.result or b"")
    bought = journal.account(child).calls_billed
    assert bought > 0
    assert f"at most {len(calls) - 1} of {len(calls)} calls" in told
