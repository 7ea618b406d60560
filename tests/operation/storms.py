"""The arms of experiments whose programs or database are interrupted."""

from typing import Any

SKILLS = ["0.2", "0.5", "0.8", "1.0"]


def arms(api_base: str) -> list[dict[str, Any]]:
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
        for skill in SKILLS
    ]
