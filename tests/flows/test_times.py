"""The time of an attempt, over all its runs."""

from typing import Any

import pytest

from agent.session.limits import get_covered_s
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

MODEL = {"provider": "simulated", "skill": 1}


async def test_the_time_of_a_resumed_attempt_is_that_of_its_steps(lake_path: str) -> None:
    """It begins with its first run and takes as long as the steps of all runs, those that ran
    together counted once. A derived attempt has the time of the steps that it shares."""
    arms: list[dict[str, Any]] = [
        {"name": "plain", "agent": "mini", "model": MODEL},
        {"name": "staged", "agent": "durable", "model": MODEL},
        {"name": "derived", "from": "staged", "options": {"profile": {"repairs": 3}}},
    ]
    same: dict[str, Any] = {"arms": arms, "select": {"sample": 1}, "primary": None}
    stopped = trial(**same, budgets={"attempt": {"calls": 3}})
    with pytest.raises(IncompleteRun, match="stopped by a budget"):
        await benchmark(stopped, lake_path)
    lake = Lake.existing(lake_path)
    before = {row["attempt_id"]: row for row in lake.rows("attempts", "trial")}
    await benchmark(trial(**same), lake_path)
    journal = open_journal(lake)
    for row in lake.rows("attempts", "trial"):
        steps = journal.steps(row["attempt_id"])
        assert row["duration_s"] == get_covered_s(steps) > 0
        own = [step.started_at for step in steps if not step.copied]
        assert all(row["started_at"] <= began for began in own)
        if first := before.get(row["attempt_id"]):
            assert row["started_at"] == first["started_at"]
            assert row["duration_s"] > first["duration_s"]
