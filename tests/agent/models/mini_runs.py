"""Trajectories written by the mini-swe-agent package itself during the test."""

from pathlib import Path
from typing import Any

import pytest

from tests.servers import openai_server as api

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"
COMMANDS = ["echo one", "echo two >&2; false", "echo diff > patch.txt", SUBMIT]


def run(
    folder: Path,
    replies: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    text: bool = False,
    name: str = "openai/gpt-4o",
) -> Path:
    """Run the package's agent over HTTP on scripted replies. Return the path of its trajectory."""
    monkeypatch.setenv("MSWEA_SILENT_STARTUP", "1")
    monkeypatch.setenv("MSWEA_COST_TRACKING", "ignore_errors")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel
    from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

    folder.mkdir(exist_ok=True)
    path = folder / "demo__one.traj.json"
    with api.OpenAIServer(replies) as server:
        kind = LitellmTextbasedModel if text else LitellmModel
        options = {"api_base": server.url}
        model = kind(model_name=name, model_kwargs=options, cost_tracking="ignore_errors")
        agent = DefaultAgent(
            model,
            LocalEnvironment(cwd=str(folder)),
            system_template="You fix things.",
            instance_template="{{task}}",
            output_path=path,
        )
        agent.run("Fix it.")
    return path
