"""Experiments whose programs or database are interrupted: their arms and their results."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agent.journal import Journal
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


def continued_at(journal: Journal, attempt_id: str, lost: str) -> datetime | None:
    """Return when another worker than the lost one took an attempt and continued it, else None."""
    later = [each for each in journal.tenures(attempt_id) if each.worker != lost]
    has_ended = journal.outcome(attempt_id) is not None
    return next((each.began_at for each in later if each.steps or has_ended), None)
