"""A fork keeps the paid steps and runs the rest anew; `trace` shows both."""

import asyncio

import pytest

from flows.display.errors import UsageError
from flows.experiments import forking
from flows.solve import solve
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture
async def attempt_id(finished: Finished, lake_path: str) -> str:
    """Return the id of a finished attempt of the able arm in the lake."""
    arms = [{"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}]
    lake = await finished.copy(trial(arms=arms, primary=None, select={"sample": 1}), lake_path)
    [found] = lake.units("attempts", "*")
    return found


async def test_a_fork_pays_only_for_new_steps(attempt_id: str, lake_path: str) -> None:
    """The kept steps are credited and not billed, and the same model arrives at the same patch."""
    lake = Lake.existing(lake_path)
    request = forking.check(attempt_id[:10], "4", lake_path)
    made, kept = await asyncio.to_thread(forking.fork, request)
    assert kept == 4
    outcome = await solve(made.experiment, made.attempt.instance_id, "able", lake=lake_path)
    assert outcome == "resolved"
    [child] = lake.units("attempts", "*", made.experiment.name)
    journal = open_journal(lake)
    whole, forked = journal.account(attempt_id), journal.account(child)
    assert forked.calls_credited == whole.calls_credited
    assert forked.calls_billed == whole.calls_billed - 2
    assert forked.billed_usd < whole.billed_usd
    [old], [new] = (lake.find("predictions", unit) for unit in (attempt_id, child))
    assert new["model_patch"] == old["model_patch"]


async def test_a_fork_that_did_not_finish_is_continued(attempt_id: str, lake_path: str) -> None:
    """The same fork again is the same attempt until it has a verdict, and then another one."""
    request = forking.check(attempt_id, "4", lake_path)
    first, _ = await asyncio.to_thread(forking.fork, request)
    other, _ = await asyncio.to_thread(forking.fork, forking.check(attempt_id, "6", lake_path))
    again, _ = await asyncio.to_thread(forking.fork, request)
    assert again == first != other
    await solve(first.experiment, first.attempt.instance_id, "able", lake=lake_path)
    finished, _ = await asyncio.to_thread(forking.fork, request)
    assert finished.attempt.attempt_id != first.attempt.attempt_id


async def test_an_unknown_attempt_or_step_cannot_be_forked(attempt_id: str, lake_path: str) -> None:
    """An unknown attempt and an unknown step are refused by name."""
    with pytest.raises(UsageError, match="has no step 99"):
        forking.check(attempt_id, "99", lake_path)
    with pytest.raises(UsageError, match="'zz' fits 0 attempts in"):
        forking.check("zz", "1", lake_path)
