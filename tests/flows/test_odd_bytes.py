"""A patch is graded, recorded, exported and published byte by byte, also if it is not UTF-8."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eval import instances
from eval.predictions import read, write_jsonl
from eval.types import Prediction
from flows.cli.app import app
from flows.grade import grade
from flows.jobs.job import job
from flows.storage.lake import Lake
from tests.flows.conftest import PREDICTION
from tests.flows.jobs.conftest import NAME, REPAIR, forge, request
from tests.servers.forge import Forge

__all__ = ["forge"]

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ODD = [
    "+caf\udce9\n",  # a byte of Latin-1
    "+\udcc3\udca9\n",  # bytes that would be UTF-8, escaped
    "+\ud800 alone\n",
    "+\udfff \udce9\n",
    "+nul \0 and \udce9\n",
]
PLAIN = ["", "+café 😀\n", '"+\\udce9"\n', "+nul \0\r\n", "?"]

LATIN = "name.txt"
CHANGE = f"{REPAIR}; printf 'caf\\351 is bought\\ntea\\n' >{LATIN}"
CHANGED = b"caf\xe9 is bought\ntea\n"


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


@pytest.mark.full
@pytest.mark.parametrize("publish", ["patch", "branch"])
async def test_a_job_publishes_the_bytes_of_its_change(
    forge: Forge, lake_path: str, publish: str
) -> None:
    """A change beside and of bytes that are not UTF-8 is committed and printed byte by byte."""
    forge.commit(NAME, {LATIN: "tea\n"}, "a file in another encoding")
    job_id = await job(request(CHANGE, publish=publish), lake_path)
    [row] = Lake.existing(lake_path).all_shared("jobs")
    assert row["verdict"] == "verified"
    [printed] = [
        subprocess.run(
            [sys.executable, "-c", "from flows.cli.app import app; app()", *arguments],
            check=True,
            capture_output=True,
        ).stdout
        for arguments in (["job", "show", job_id, "--patch", "--lake", lake_path],)
    ]
    assert b"+caf\xe9 is bought\n" in printed
    [prediction] = Lake.existing(lake_path).find("predictions", row["attempt_id"])
    assert prediction["patch_sha256"] == hashlib.sha256(printed).hexdigest()
    if publish == "branch":
        assert content(forge, row["branch"]) == CHANGED


def content(forge: Forge, branch: str) -> bytes:
    """Return the changed file on a branch."""
    return subprocess.run(
        ["git", "-C", str(forge.path(NAME)), "show", f"{branch}:{LATIN}"],
        check=True,
        capture_output=True,
    ).stdout
