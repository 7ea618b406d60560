"""`durabench job` and `durabench pipeline` at the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.jobs.definition import load

MINI = ("--arm", "mini", "--model", "openai/gpt-5")
EXAMPLE = Path(load.__code__.co_filename).with_name("pipeline.example.yaml")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["job", "a/b", "", *MINI], "the task is empty"),
        (["job", "a/b", "Do it."], "arm 'durable' needs a model: name one with --model"),
        (["job", "a/b", "Do it.", "--arm", "none"], "there is no arm 'none'"),
        (["job", "a/b", "Do it.", *MINI, "--pr", "--branch"], "exclude each other"),
        (["job", "a/b", "Do it.", *MINI, "--budget", "-1"], "budget_usd"),
        (["job", "a/b", "Do it.", "--arm", "gold"], "the agent gold is for benchmarks only"),
        (["job", "show", "abc"], "no job with the id 'abc'"),
        (["pipeline", "check", "none.yaml"], "none.yaml: No such file"),
        (["pipeline", "run", "none.yaml"], "none.yaml: No such file"),
        (["pipeline", "show", "abc"], "no job with the id 'abc'"),
    ],
)
def test_a_wrong_request_is_one_line(
    command: list[str], line: str, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2, and no lake is created."""
    monkeypatch.setenv("DURABENCH_LAKE", lake_path)
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert line in done.stderr
    assert not Path(lake_path).exists()


def test_the_example_is_checked() -> None:
    """Its layers are printed, and nothing runs."""
    done = CliRunner().invoke(app, ["pipeline", "check", str(EXAMPLE)])
    assert done.exit_code == 0, done.output
    assert "2. simplify-types ← raise-minimum, remove-backports ← raise-minimum" in done.output
