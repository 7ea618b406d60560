"""`durabench debug` on a cell of an experiment file."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.app import app
from flows.experiments.declaration import from_record
from flows.storage.lake import Lake

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

INSTANCE = "durabench__quillet-1"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write an experiment for workers with two profiles of one agent, budgets and a comparison.
    Return its path."""
    simulated = {"provider": "simulated", "skill": 1}
    options = {"profile": {"candidates": {"low": 1, "medium": 1, "high": 1}, "parallel": 1}}
    content = {
        "name": "profiles",
        "environment": "host",
        "execution": "distributed",
        "select": {"ids": [INSTANCE, "durabench__quillet-2"]},
        "arms": [
            {"name": "usual", "agent": "durable", "model": simulated},
            {"name": "narrow", "agent": "durable", "model": simulated, "options": options},
        ],
        "primary": {"baseline": "usual", "candidate": "narrow"},
        "repeats": 3,
        "budgets": {"attempt": {"calls": 2}},
    }
    path = tmp_path / "profiles.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.full
def test_an_arm_of_a_file_is_debugged_with_its_options_and_budgets(
    file: str, lake_path: str
) -> None:
    """The arm runs once, locally and as an experiment of its own, until the file's budget stops
    it."""
    command = ["debug", INSTANCE, "--arm", "narrow", "--experiment", file, "--lake", lake_path]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 3, done.output
    assert "the budget of attempt" in done.stderr
    assert "has no calls left of 2" in done.stderr
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 3, "the attempt is continued, and its budget has not changed"
    lake = Lake.existing(lake_path)
    [name] = lake.experiments()
    assert name.startswith("debug-")
    [row] = lake.rows("experiments", name)
    declared = from_record(row["declaration"])
    [arm] = declared.arms
    assert (arm.name, declared.repeats, declared.primary) == ("narrow", 1, None)
    written = json.loads(row["declaration"])["arms"][0]["options"]["profile"]
    assert (written["parallel"], written["candidates"]["high"]) == (1, 1)
    [attempt] = lake.rows("attempts", name)
    assert (attempt["outcome"], attempt["model_calls"]) == ("budget_stop", 2)
