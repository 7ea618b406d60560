"""Programs as arms of an experiment, from the declaration to the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.benchmark import benchmark
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.agent.arms.command.programs import commands, tiny
from tests.flows.conftest import trial
from tests.flows.test_benchmark import rows
from tests.servers.openai_server import OpenAIServer, Reply, server_error
from tests.servers.strict import Anthropic

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
    page = Path(lake_path) / "reports" / "trial" / "report.md"
    assert "claimed_cost_differs" in page.read_text()
    asked = [json.loads(row["request"]) for row in rows(lake_path, "steps") if row["scope"]]
    assert asked[1]["asked_model"] == "claude-haiku-9"


@pytest.mark.full
async def test_a_provider_that_is_away_for_a_while_is_waited_for(
    lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a call has failed for good, the same run starts the program again, and answers of its
    first start come from the record."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "throw-away")
    strict = Anthropic(commands)
    away = [3]

    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) > 1 and away[0]:
            away[0] -= 1
            return replace(server_error(), headers={"Retry-After": "0.1"})
        return strict(body)

    with OpenAIServer(answer) as server:
        base = server.url.removesuffix("/v1")
        model = {"name": "anthropic/claude-sonnet-4-5", "api_base": base, "max_retries": 1}
        recipe = tiny("messages", "stream", volatile=["metadata"]).model_dump(mode="json")
        arms = [{"name": "tiny", "agent": "command", "model": model, "options": {"recipe": recipe}}]
        await benchmark(trial(arms=arms, primary=None, select={"sample": 1}), lake_path)
        assert len(server.requests) == 4 + 3
    [attempt] = rows(lake_path, "attempts")
    assert (attempt["outcome"], attempt["model_calls"]) == ("submitted", 4)
    assert (attempt["restarts"], attempt["answered_from_record"]) == (1, 1)
