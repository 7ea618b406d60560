"""`durabench pipeline` at the command line."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.app import app
from flows.jobs.definition import load
from tests.flows.jobs.cli.test_job import said
from tests.flows.jobs.conftest import NAME, REPAIR, forge, pipeline, step
from tests.servers.forge import Forge

assert forge, "a fixture"

EXAMPLE = Path(load.__code__.co_filename).with_name("pipeline.example.yaml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a pipeline whose first step needs approval. Return its path."""
    declared = pipeline(
        step("fix", REPAIR, approval=True), step("notes", "echo '# Notes' >NOTES.md", "fix")
    )
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    return path


def test_the_example_is_checked() -> None:
    """Its layers are printed, and nothing runs."""
    code, output = said("pipeline", "check", str(EXAMPLE))
    assert code == 0, output
    assert "2. simplify-types ← raise-minimum, remove-backports ← raise-minimum" in output


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["check", "none.yaml"], "none.yaml: No such file"),
        (["run", "none.yaml"], "none.yaml: No such file"),
        (["show", "abc"], "no job with the id 'abc'"),
    ],
)
def test_a_wrong_request_is_one_line(command: list[str], line: str, lake_path: str) -> None:
    """The exit code is that of wrong usage, and no lake is created."""
    lake = [] if command[0] == "check" else ["--lake", lake_path]
    done = CliRunner().invoke(app, ["pipeline", *command, *lake])
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert line in done.stderr
    assert not Path(lake_path).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_a_pipeline_from_the_file_to_its_pull_request(
    forge: Forge, file: Path, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first step waits, and approving that leads to the pull request of both."""
    monkeypatch.setenv("COLUMNS", "200")  # addresses are not wrapped
    lake = ("--lake", lake_path)
    code, output = said("pipeline", "run", str(file), *lake)
    assert code == 0, output
    assert forge.pulls[NAME] == []
    approve = output.partition("`durabench job approve ")[2].partition("`")[0]
    run_id = output.partition("run ")[2].partition(" ")[0]
    for command in (["job", "revise", approve, "More."], ["job", "cancel", approve]):
        assert f"is a step of run {run_id}: name that run instead" in said(*command, *lake)[1]
    code, output = said("job", "approve", approve, *lake)
    assert code == 0, output
    [pull] = forge.pulls[NAME]
    assert pull["html_url"] in output
    assert pull["html_url"] in said("pipeline", "runs", "release", *lake)[1]
    shown = said("pipeline", "show", run_id[:6], *lake)[1]
    assert "| notes | done | verified | notes |" in shown
