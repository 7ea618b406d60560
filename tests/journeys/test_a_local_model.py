"""A model of your own server, from the page alone."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.journeys.command_line import Terminal
from tests.servers import openai_server as api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "agent/LOCAL_MODELS.md"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def answer(body: dict[str, Any]) -> api.Reply:
    """Answer as a small model does: in prose, or with a call that is cut off."""
    if any(tool["function"]["name"] == "bash" for tool in body.get("tools", ())):
        return api.by_turn([api.text("I would look at the code."), api.command(SUBMIT)])(body)
    return api.text("First, ", finish_reason="length")


@pytest.mark.journey("run", "status")
def test_the_example_of_the_page_ends_in_a_report_of_two_arms(
    terminal: Terminal, environment: str
) -> None:
    """Without a key and a price, with a window from the server, although the model is useless."""
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with api.OpenAIServer(answer) as server:
        declared = yaml.safe_load(example)
        declared["model"]["api_base"] = server.url
        declared["select"] = {"sample": 1, "seed": 1}
        file = terminal.write("local.yaml", {**declared, "environment": environment})
        printed = terminal.durabench("run", file)
        requests = len(server.requests)
        assert "[2/2]" in printed
        assert "mini" in printed
        assert "durable" in printed
        assert "No cost is known" in printed
        assert "[2/2] done by an earlier run" in terminal.durabench("run", file)
        assert len(server.requests) == requests
    assert "durable" in terminal.durabench("status", "local", "--cells")
