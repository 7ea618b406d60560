"""`durabench job` and `durabench jobs` at the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.flows.jobs.conftest import forge

assert forge, "a fixture"

MINI = ("--arm", "mini", "--model", "openai/gpt-5")


def said(*command: str) -> tuple[int, str]:
    """Run a command. Return its exit code and all that it printed."""
    done = CliRunner().invoke(app, list(command))
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["a/b", "", *MINI], "the task is empty"),
        (["a/b", "Do it."], "arm 'durable' needs a model: name one with --model"),
        (["a/b", "Do it.", "--arm", "none"], "there is no arm 'none'"),
        (["a/b", "Do it.", *MINI, "--pr", "--branch"], "exclude each other"),
        (["a/b", "Do it.", *MINI, "--budget", "-1"], "budget_usd"),
        (["a/b", "Do it.", "--arm", "gold"], "arm 'gold': the agent gold is for benchmarks only"),
        (["show", "abc"], "no job with the id 'abc'"),
    ],
)
def test_a_wrong_request_is_one_line(command: list[str], line: str, lake_path: str) -> None:
    """The exit code is 2, and no lake is created."""
    done = CliRunner().invoke(app, ["job", *command, "--lake", lake_path])
    assert done.exit_code == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path(lake_path).exists()
