"""`durabench pipeline` at the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.jobs.definition import load
from tests.flows.jobs.cli.test_job import said
from tests.flows.jobs.conftest import forge

assert forge, "a fixture"

EXAMPLE = Path(load.__code__.co_filename).with_name("pipeline.example.yaml")


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
    """The exit code is 2, and no lake is created."""
    lake = [] if command[0] == "check" else ["--lake", lake_path]
    done = CliRunner().invoke(app, ["pipeline", *command, *lake])
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert line in done.stderr
    assert not Path(lake_path).exists()
