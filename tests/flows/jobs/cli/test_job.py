"""`durabench job` and `durabench jobs` at the command line."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.app import app
from tests.flows.jobs.conftest import NAME, REPAIR, arm, forge
from tests.servers.forge import Forge

assert forge, "a fixture"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write an experiment with one arm that repairs the project. Return its path."""
    path = tmp_path / "arms.yaml"
    path.write_text(yaml.safe_dump({"name": "arms", "arms": [arm("repair", REPAIR)]}))
    return str(path)


def said(*command: str) -> tuple[int, str]:
    """Run a command. Return its exit code and all that it printed."""
    done = CliRunner().invoke(app, list(command))
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["a/b", "", "--arm", "gold"], "the task is empty"),
        (["a/b", "Do it."], "arm 'durable' needs a model: name one with --model"),
        (["a/b", "Do it.", "--arm", "none"], "there is no arm 'none'"),
        (["a/b", "Do it.", "--arm", "gold", "--pr", "--branch"], "exclude each other"),
        (["a/b", "Do it.", "--arm", "gold", "--budget", "-1"], "budget_usd"),
        (["show", "abc"], "no job with the id 'abc'"),
    ],
)
def test_a_wrong_request_is_one_line(command: list[str], line: str, lake_path: str) -> None:
    """The exit code is that of wrong usage, and no lake is created."""
    done = CliRunner().invoke(app, ["job", *command, "--lake", lake_path])
    assert done.exit_code == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path(lake_path).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_a_job_from_the_command_to_its_pull_request(
    forge: Forge, file: str, lake_path: str
) -> None:
    """It waits for approval, is listed and shown, and its pull request is opened on approval."""
    lake = ("--lake", lake_path)
    task = "Add, don't subtract."
    options = ("-x", file, "--pr", "--approve", "-e", "host")
    code, output = said("job", NAME, task, *options, *lake)
    assert code == 0, output
    [job_id] = {path.stem for path in (Path(lake_path) / "jobs").iterdir()}
    assert f"`durabench job approve {job_id}` publishes it" in output
    assert forge.pulls[NAME] == []
    assert "waiting" in said("jobs", *lake)[1]
    assert "+    return a + b" in said("job", "show", job_id[:6], "--patch", *lake)[1]
    code, output = said("job", "approve", job_id, *lake)
    assert code == 0, output
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in output
    assert pull["html_url"] in said("job", "show", job_id, *lake)[1]
    code, output = said("job", "cancel", job_id, *lake)
    assert (code, "has ended: it is done" in output) == (2, True)
