"""The forge of the tests of jobs, with pipelines on it."""

from typing import Any

from flows.jobs.definition import Pipeline
from tests.flows.jobs.conftest import NAME, arm, forge

__all__ = ["forge"]


def pipeline(*steps: dict[str, Any], **changes: Any) -> Pipeline:
    """Return a pipeline on the project, on the host. Each step has an arm of its own."""
    arms = [arm(step["name"].lower(), step.pop("command")) for step in steps]
    content = {"name": "release", "title": "A release", "source": NAME, "arms": arms}
    steps_ = [{**step, "arm": step["name"].lower()} for step in steps]
    return Pipeline.model_validate(
        {**content, "steps": steps_, "environment": "host", "publish": "pull_request", **changes}
    )


def step(name: str, command: str, *depends_on: str, **changes: Any) -> dict[str, Any]:
    """Return a step whose arm runs a command."""
    return {
        "name": name,
        "task": f"Do {name}.",
        "command": command,
        "depends_on": list(depends_on),
        **changes,
    }
