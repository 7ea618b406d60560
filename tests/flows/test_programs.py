"""Programs as arms of an experiment, from the declaration to the report."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.benchmark import benchmark
from flows.cli.app import app
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.agent.arms.command.programs import tiny
from tests.flows.conftest import rows, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


async def test_a_program_is_reported_with_both_costs(lake_path: str) -> None:
    """It solves the task with a simulated model; an audit shows that its own claim is wrong."""
    recipe = tiny("messages", "stream", volatile=["metadata"]).model_dump(mode="json")
    model = {"provider": "simulated", "skill": 1}
    arms = [
        {"name": "tiny", "agent": "command", "model": model, "options": {"recipe": recipe}},
        {"name": "gold", "agent": "gold"},
    ]
    declared = trial(arms=arms, primary=None, select={"sample": 1})
    await benchmark(declared, lake_path)
    built = report_files.read(Lake.existing(lake_path), "trial")
    assert {arm.name: arm.resolved for arm in built.arms} == {"tiny": 1, "gold": 1}
    assert [audit.name for audit in built.audits] == ["claimed_cost_differs"]
    [attempt] = [row for row in rows(lake_path, "attempts") if row["agent"] == "command"]
    calls = rows(lake_path, "llm_calls")
    assert attempt["model_calls"] == len(calls) > 3
    assert attempt["cost_usd"] == pytest.approx(sum(call["cost_usd"] for call in calls))
    assert attempt["cost_usd"] == pytest.approx(attempt["billed_usd"])
    assert (attempt["claimed_usd"], attempt["restarts"], attempt["refused_tools"]) == (0.25, 0, 0)
    assert {call["role"] for call in calls} == {"agent", "small"}
    assert 0 < attempt["first_request_s"] < attempt["duration_s"]
    assert (attempt["unused_calls"], len(attempt["recipe_digest"])) == (0, 64)
    page = Path(lake_path) / "reports" / "trial" / "report.md"
    assert "claimed_cost_differs" in page.read_text()
    section = page.read_text().partition("How did the programs run?")[2]
    row = next(line for line in section.splitlines() if "tiny" in line)
    assert row.split(" | ")[2:4] == [attempt["recipe_digest"][:8], "$0.250"]
    asked = [json.loads(row["request"]) for row in rows(lake_path, "steps") if row["scope"]]
    assert asked[1]["asked_model"] == "claude-haiku-9"


async def test_the_output_of_a_program_that_failed_is_a_file(lake_path: str) -> None:
    """It is whole, and the trace and the diagnosis name it and show its last 30 lines."""
    recipe = tiny("messages", volatile=["metadata"]).model_dump(mode="json")
    recipe["run"] += "\ngit checkout -q .; seq 40; echo no key >&2; exit 3"
    model = {"provider": "simulated", "skill": 1}
    arm = {"name": "tiny", "agent": "command", "model": model, "options": {"recipe": recipe}}
    await benchmark(trial(arms=[arm], primary=None, select={"sample": 1}), lake_path)
    [attempt] = rows(lake_path, "attempts")
    assert (attempt["outcome"], attempt["detail"].count("\n")) == ("gave_up", 0)
    [path] = (Path(lake_path) / "outputs" / "trial").iterdir()
    assert path.read_text().endswith("\n1\n" + "".join(f"{n}\n" for n in range(2, 41)) + "no key\n")
    for command in ("trace", "diagnose"):
        argv = [command, attempt["attempt_id"], "--lake", lake_path]
        done = await asyncio.to_thread(CliRunner().invoke, app, argv)
        lines = [line.strip() for line in done.stdout.split("\n")]
        start = lines.index(f"The whole output of the program is in {path}. It ends with:")
        shown = [*map(str, range(12, 41)), "no key"]
        assert lines[start + 1 : start + 1 + len(shown)] == shown
