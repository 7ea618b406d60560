"""Experiments whose programs or database are interrupted: their arms and their results."""

from collections.abc import Sequence
from typing import Any

from flows.storage.lake import Lake
from tests.servers.prefect_server import PrefectServer

SKILLS = ["0.2", "0.5", "0.8", "1.0"]


def arms(api_base: str, skills: Sequence[str] = SKILLS) -> list[dict[str, Any]]:
    return [
        {
            "name": f"skill-{skill}",
            "agent": "mini",
            "model": {
                "name": f"openai/skill-{skill}",
                "api_base": api_base,
                "input_cost_per_token": 1e-6,
                "output_cost_per_token": 1e-5,
            },
        }
        for skill in skills
    ]


def results(
    server: PrefectServer, name: str, skills: Sequence[str] = SKILLS
) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return outcome, calls, tokens, cost and verdict by arm and instance."""
    lake = Lake.existing(server.folder / "lake")
    verdicts = {row["attempt_id"]: row["outcome"] for row in lake.rows("evaluations", name)}
    return {
        (arm, row["instance_id"]): (
            row["outcome"],
            row["model_calls"],
            row["input_tokens"],
            row["output_tokens"],
            round(row["cost_usd"], 9),
            verdicts[row["attempt_id"]],
        )
        for arm in (f"skill-{skill}" for skill in skills)
        for unit in lake.units("attempts", "*", name, arm)
        for row in lake.read("attempts", name, arm, unit)
    }
