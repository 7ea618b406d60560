"""`flows/experiments/harnesses.yaml` as a whole, with the real programs, on two of its tasks."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.benchmark import benchmark
from flows.experiments import declaration
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.agent.arms.command.from_npm import recipe_from_npm
from tests.flows.test_benchmark import rows

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.docker,
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

DECLARED = Path(__file__).parents[2] / "flows" / "experiments" / "harnesses.yaml"


def with_programs_from_npm(arm: dict[str, Any]) -> dict[str, Any]:
    """Return an arm whose program, if it has one, is in a folder of this machine."""
    if arm["agent"] != "command":
        return arm
    recipe = recipe_from_npm(arm["options"]["recipe"])
    return {**arm, "options": {"recipe": recipe.model_dump(mode="json", exclude_defaults=True)}}


async def test_the_harnesses_run_on_a_simulated_model_without_a_key(
    lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every program ends by itself with a patch and metered calls, and the controls are right."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    content = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    content["arms"] = [with_programs_from_npm(arm) for arm in content["arms"]]
    content["model"]["skill"] = 1
    content["select"] = {"sample": 2}
    await benchmark(declaration.parse(content, DECLARED.name), lake_path)
    built = report_files.read(Lake.existing(lake_path), "harnesses")
    resolved = {arm.name: arm.resolved for arm in built.arms}
    assert resolved.pop("null") == 0
    assert set(resolved.values()) == {2}
    # The prices that Claude Code knows are not those of the simulated model.
    assert {audit.name for audit in built.audits} <= {"claimed_cost_differs"}
    programs = [row for row in rows(lake_path, "attempts") if row["agent"] == "command"]
    assert len(programs) == 2 * 3
    for attempt in programs:
        assert attempt["outcome"] == "submitted"
        assert attempt["model_calls"] > 3
        assert attempt["cost_usd"] > 0
        assert attempt["agent_version"]
        assert (attempt["restarts"], attempt["refused_tools"]) == (0, 0)
