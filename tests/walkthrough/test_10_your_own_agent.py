"""Your own agent as an arm: a function in Python, or any program."""

import sys
from pathlib import Path
from typing import Any

import pytest

from eval import instances
from flows.benchmark import benchmark
from flows.experiments import declaration
from flows.storage.lake import Lake

INSTANCE = instances.load(instances.BUNDLED)[0]

COMMAND = f"```\ngit apply - <<'PATCH'\n{INSTANCE.patch}PATCH\n```"
"""An answer with a command that solves the instance."""

PROGRAM = Path(__file__).with_name("own_program.py")

RECIPE = {
    "name": "own",
    "dialect": "chat",
    "run": f"{sys.executable} {PROGRAM}",
    "environment": {
        "OPENAI_BASE_URL": "$DURABENCH_URL/v1",
        "OPENAI_API_KEY": "$DURABENCH_KEY",
        "ISSUE": "$DURABENCH_TASK",
    },
}

ARMS = [
    {
        "name": "function",
        "agent": "tests.walkthrough.own_agent:solve",
        "options": {"turns": 5},
    },
    {"name": "program", "agent": "command", "options": {"recipe": RECIPE}},
]


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm["name"])
async def test_your_own_agent_is_an_arm(arm: dict[str, Any], tmp_path: Path) -> None:
    """A function or an unchanged program is metered, recorded and graded like any other arm."""
    experiment = declaration.parse(
        {
            "name": "own",
            "environment": "host",
            "select": {"ids": [INSTANCE.instance_id]},
            "model": {"provider": "scripted", "replies": [COMMAND, "DONE"]},
            "arms": [arm],
        },
        "own.yaml",
    )
    await benchmark(experiment, str(tmp_path))
    lake = Lake.existing(tmp_path)
    [attempt] = lake.rows("attempts", "own")
    [verdict] = lake.rows("evaluations", "own")
    assert (attempt["outcome"], verdict["resolved"]) == ("submitted", True)
    assert attempt["model_calls"] == len(lake.rows("llm_calls", "own")) == 2
