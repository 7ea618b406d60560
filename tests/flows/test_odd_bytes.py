"""A patch is graded, recorded and exported byte by byte, even if it is not UTF-8."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eval import instances
from eval.predictions import read, write_jsonl
from eval.types import Prediction
from flows.cli.app import app
from flows.grade import grade
from flows.storage.lake import Lake
from tests.flows.conftest import PREDICTION

ODD = [
    "+caf\udce9\n",  # a byte of Latin-1
    "+\udcc3\udca9\n",  # bytes that would be UTF-8, escaped
    "+\ud800 alone\n",
    "+\udfff \udce9\n",
    "+nul \0 and \udce9\n",
]
PLAIN = ["", "+café 😀\n", '"+\\udce9"\n', "+nul \0\r\n", "?"]


@pytest.mark.parametrize("patch", [*ODD, *PLAIN])
def test_the_lake_returns_the_patch_that_was_written(tmp_path: Path, patch: str) -> None:
    """Any patch is read as it was written, also with one column. A plain one has no copy."""
    lake = Lake.open(tmp_path)
    row = {**PREDICTION, "model_patch": patch}
    path = lake.write("predictions", "trial", "a", "1", [row])
    assert lake.read("predictions", "trial", "a", "1") == lake.find("predictions", "1") == [row]
    [only] = lake.read("predictions", "trial", "a", "1", ("model_patch",))
    assert only == {"model_patch": patch}
    [stored] = pq.read_table(str(path), partitioning=None).to_pylist()
    assert (stored["model_patch_json"] is None) == (patch in PLAIN)


def test_rows_without_a_copy_are_read(tmp_path: Path) -> None:
    """A row of a release that knew no copies has its patch."""
    lake = Lake.open(tmp_path)
    path = lake.write("predictions", "trial", "a", "1", [PREDICTION])
    old = pq.read_table(str(path), partitioning=None).drop_columns("model_patch_json")
    pq.write_table(old, str(path))
    assert lake.read("predictions", "trial", "a", "1") == [PREDICTION]
    [only] = lake.read("predictions", "trial", "a", "1", ("model_patch",))
    assert only == {"model_patch": "diff"}


@pytest.mark.usefixtures("prefect")
@pytest.mark.slow
async def test_a_predictions_file_is_graded_and_exported_as_it_is(
    lake_path: str, tmp_path: Path
) -> None:
    """As by the official runner, a patch that no file can hold is not applied. The export equals
    the file."""
    tasks = instances.load("bundled")[: len(ODD)]
    given = [
        Prediction(task.instance_id, "somebody", task.patch + odd)
        for task, odd in zip(tasks, ODD, strict=False)
    ]
    file = tmp_path / "all_preds.jsonl"
    write_jsonl(file, given)
    outcomes = await grade(file, "odd", environment="host", lake=lake_path)
    assert set(outcomes.values()) == {"patch_failed"}
    assert len(outcomes) == len(given) > 2
    again = await grade(file, "odd", environment="host", lake=lake_path)
    assert again == outcomes
    exported = CliRunner().invoke(
        app, ["export", "odd", "-o", str(tmp_path / "out"), "--lake", lake_path]
    )
    assert exported.exit_code == 0, exported.output
    assert read(tmp_path / "out" / "somebody" / "all_preds.jsonl") == sorted(
        given, key=lambda one: one.instance_id
    )
