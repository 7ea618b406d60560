"""`durabench report --cutoff`: a model and the last day of its training data."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.reports.lake_fixture import LakeBuilder


@pytest.fixture
def dated(tmp_path: Path) -> Path:
    """Return a lake with an arm at an instance from 2025."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a"], ["i"], model="m/x=1")
    lake.cell("a", "i", instance_created_at="2025-05-01")
    return tmp_path


def run(lake: Path, cutoff: str) -> tuple[int, str]:
    """Return exit code and error line of a report with a cut-off date."""
    result = CliRunner().invoke(app, ["report", "trial", "--lake", str(lake), "--cutoff", cutoff])
    return result.exit_code, result.stderr.strip()


def test_results_are_split_at_the_date(dated: Path) -> None:
    """The model may contain an equals sign; the report has the instance after the date."""
    assert run(dated, "m/x=1=2025-03-31")[0] == 0
    text = (dated / "reports" / "trial" / "report.md").read_text()
    assert "| a | m/x=1 | after 2025-03-31 | 1 | 1 of 1 |" in text


@pytest.mark.parametrize("cutoff", ["m/x=1", "2025-03-31", "=2025-03-31", "m/x=1=2025-13-01", ""])
def test_what_is_no_model_with_a_date_is_refused(dated: Path, cutoff: str) -> None:
    """The error says in one line how to write it."""
    code, line = run(dated, cutoff)
    assert code == 2
    assert line.endswith(f"--cutoff {cutoff!r}: write MODEL=YYYY-MM-DD")
