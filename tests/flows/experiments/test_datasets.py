"""A row that cannot be used is left out of a run, and is an error if it is asked for."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from eval import instances
from flows.cli.app import app

GOOD, BAD, *_ = instances.load("bundled")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file whose second row has binary files, predictions for both, and an experiment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DURABENCH_LAKE", str(tmp_path / "lake"))
    bad = {**BAD.row, "image_assets": '{"test_patch": [{"path": "a.png"}]}'}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in (GOOD.row, bad)))
    for name, instance in (("good", GOOD), ("bad", BAD)):
        prediction = {
            "instance_id": instance.instance_id,
            "model_name_or_path": "m",
            "model_patch": instance.patch,
        }
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(prediction))
        declared = {
            "name": name,
            "dataset": str(path),
            "environment": "host",
            "select": {"ids": [instance.instance_id]} if name == "bad" else {},
            "arms": [{"name": "gold", "agent": "gold"}],
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(declared))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["run", "bad.yaml", "--no-grade"],
        ["grade", "bad.jsonl", "--name", "x", "--dataset", "rows.jsonl", "-e", "host"],
        ["images", "check", "--dataset", "rows.jsonl", "--id", BAD.instance_id],
        ["debug", BAD.instance_id, "--arm", "gold", "-x", "bad.yaml"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.usefixtures("rows")
def test_a_selected_row_that_cannot_be_used_is_one_line(command: list[str]) -> None:
    """The exit code is that of wrong usage, and nothing is written."""
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2, done.output
    assert f"row 2 ({BAD.instance_id}): image_assets are not supported" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path("lake").exists()
