"""An exported attempt of the durable arm answers another attempt as a recording."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.benchmark import benchmark
from flows.cli.app import app
from flows.experiments.declaration import Experiment
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

IDS = ["durabench__slotwise-2"]


def declared(name: str, model: dict[str, Any]) -> Experiment:
    """Return an experiment with the durable arm on one instance and the most candidates of its
    profile."""
    profile = {"parallel": 2, "candidates": {"high": 3, "medium": 3, "low": 3}}
    arms = [{"name": "durable", "agent": "durable", "options": {"profile": profile}}]
    return trial(name=name, arms=arms, model=model, select={"ids": IDS}, primary=None)


def results(lake_path: str, experiment: str) -> dict[str, Any]:
    """Return outcome, patch and credits of each attempt by instance, and the cost of each model
    call."""
    lake = Lake.existing(lake_path)
    journal = open_journal(lake)
    found = {}
    for unit in lake.units("attempts", "*", experiment):
        [attempt], [prediction] = lake.find("attempts", unit), lake.find("predictions", unit)
        account = journal.account(unit)
        calls = {
            (step.scope, step.seq): step.cost_usd
            for step in journal.steps(unit)
            if step.kind == "model"
        }
        found[attempt["instance_id"]] = {
            "outcome": attempt["outcome"],
            "patch": prediction["model_patch"],
            "calls": calls,
            "credited": (account.calls_credited, account.credited_usd),
        }
    return found


@pytest.mark.full
async def test_a_recording_answers_as_the_model_did(lake_path: str, tmp_path: Path) -> None:
    """A recording gives the same patches, calls and costs, even with concurrent candidates."""
    simulated = {"provider": "simulated", "skill": 0.5, "malformed": 0.1}
    await benchmark(declared("live", simulated), lake_path, grade=False)
    folder = tmp_path / "recordings"
    command = ["export", "live", "--trajectories", "--output", str(folder), "--lake", lake_path]
    exported = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert exported.exit_code == 0, exported.output
    names = sorted(path.name for path in (folder / "durable").glob("*.traj.json"))
    assert names == [f"{instance}.traj.json" for instance in IDS]

    recorded = {"provider": "recorded", "path": str(folder / "durable")}
    await benchmark(declared("again", recorded), lake_path, grade=False)
    live = results(lake_path, "live")
    assert results(lake_path, "again") == live
    assert sorted(live) == IDS
    scopes = {scope for result in live.values() for scope, _ in result["calls"]}
    assert any(scope.endswith("/candidate-2") for scope in scopes)
