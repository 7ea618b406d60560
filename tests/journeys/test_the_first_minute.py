"""From a model and two agents, or from an example, to a report."""

import pytest
import yaml

from eval import instances
from flows.experiments import declaration
from tests.journeys.command_line import Terminal
from tests.servers import openai_server as api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = [api.command("ls"), api.command("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]


@pytest.mark.journey("run --dataset --model --arm", "run")
def test_options_stand_for_a_file(terminal: Terminal, environment: str) -> None:
    """The same options, more of them, or the file that was printed resume the same experiment."""
    with api.OpenAIServer(api.by_turn(SCRIPT)) as server:
        options = ("--dataset", "bundled", "--model", "openai/gpt-4o", "--api-base", server.url)
        options += ("--arm", "mini", "--budget", "5", "--environment", environment)
        printed = terminal.durabench("run", *options, "--sample", "1")
        assert "Next: durabench diagnose " in printed
        calls = len(server.requests)
        assert calls >= 2

        file, _, content = printed.partition("Save it as ")[2].partition(" to change it.\n")
        (terminal.folder / file).write_text(content.partition("\n#")[0])
        assert declaration.load(terminal.folder / file).name == "bundled-openai-gpt-4o"
        assert "[1/1] done by an earlier run" in terminal.durabench("run", file)
        assert len(server.requests) == calls

        printed = terminal.durabench("run", *options, "--arm", "gold", "--sample", "2")
        assert "[1/4] done by an earlier run" in printed
    assert terminal.lake.experiments() == ["bundled-openai-gpt-4o"]


@pytest.mark.journey("init")
def test_an_example_is_ready_to_run(terminal: Terminal) -> None:
    """The file is the README's, lacks only a key, and is never overwritten."""
    assert "durabench run mine.yaml" in terminal.durabench("init", "mine.yaml")
    path = terminal.folder / "mine.yaml"
    path.write_text(path.read_text() + "# changed\n")
    assert "mine.yaml exists" in terminal.refused("init", "mine.yaml")
    assert path.read_text().endswith("# changed\n")

    example = yaml.safe_load(path.read_text())
    row = instances.load("bundled")[0].instance_id
    terminal.write("mine.yaml", {**example, "dataset": "bundled", "select": {"ids": [row]}})
    assert "needs OPENAI_API_KEY" in terminal.refused("run", "mine.yaml")
