"""Files of other systems are recognized by their content."""

import json
import os
import shutil
from pathlib import Path

import pytest

from flows.display.errors import UsageError
from flows.formats import recognition
from tests.flows.formats import inspect_tasks
from tests.flows.formats.trajectories import HARBOR_JOB, asked, said, trajectory, write

IDS = ["acme__lib-1", "acme__lib-2"]
RUN_REPORT = {"submitted_ids": IDS, "resolved_ids": IDS[:1], "unresolved_ids": IDS[1:]}
PREDICTIONS = [
    {"instance_id": i, "model_name_or_path": "m", "model_patch": "diff --git a/x b/x\n"}
    for i in IDS
]


def count(path: Path) -> tuple[int, int]:
    """Return the numbers of attempts and of resolved ones."""
    attempts = recognition.read(path).attempts
    return len(attempts), sum(attempt.facts.verdict == "resolved" for attempt in attempts)


def test_a_job_of_harbor(tmp_path: Path) -> None:
    job = shutil.copytree(HARBOR_JOB, tmp_path / "job")
    assert count(job) == (8, 4)


def test_trajectories_in_atif(tmp_path: Path) -> None:
    path = write(tmp_path / "some" / "acme__lib-1.json", trajectory(said("fix"), asked("done")))
    assert count(path) == count(path.parent) == (1, 0)


def test_a_log_of_inspect(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="needs the package inspect-ai")
    log = inspect_tasks.run(tmp_path, ["42", "41"])
    assert count(log) == count(log.parent) == (2, 1)


def test_an_output_folder_of_mini(tmp_path: Path, shared_data: Path) -> None:
    """The report of swebench in the folder has the verdicts."""
    folder = shutil.copytree(shared_data / "mini_trajectories", tmp_path / "mini")
    assert count(folder) == (13, 0)
    ids = ["django__django-11163"]
    write(folder / "gemini.run.json", {"submitted_ids": ids, "resolved_ids": ids})
    assert count(folder) == (13, 1)


def test_a_submission_of_swebench(tmp_path: Path) -> None:
    """Predictions, in both forms, need the report in their folder."""
    lines = tmp_path / "a" / "all_preds.jsonl"
    lines.parent.mkdir()
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in PREDICTIONS))
    listed = write(tmp_path / "b" / "preds.json", {row["instance_id"]: row for row in PREDICTIONS})
    for path in (lines, listed):
        with pytest.raises(UsageError, match="grade them first"):
            recognition.read(path)
        report = write(path.with_name("m.run.json"), RUN_REPORT)
        assert count(path) == count(report) == count(path.parent) == (2, 1)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.json", "t.jsonl"])
def test_a_table(tmp_path: Path, name: str) -> None:
    rows = [{"instance_id": i, "resolved": i == IDS[0]} for i in IDS]
    path = tmp_path / "folder" / name
    path.parent.mkdir()
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        values = [list(map(str, row.values())) for row in rows]
        path.write_text("".join(f"{mark.join(line)}\n" for line in [list(rows[0]), *values]))
    assert count(path) == count(path.parent) == (2, 1)


def test_a_table_with_the_headings_of_a_spreadsheet(tmp_path: Path) -> None:
    """Case, blanks and marks do not matter, and a refusal says what a column has to be called."""
    path = tmp_path / "t.csv"
    path.write_text("Instance ID,Solved?,# calls\na-1,1,7\na-2,0,8\n")
    assert count(path) == (2, 1)
    assert [a.facts.model_calls for a in recognition.read(path).attempts] == [7, 8]
    path.write_text("row,passed\n1,1\n")
    with pytest.raises(UsageError, match="it has row, passed; call one instance_id, or import it"):
        recognition.read(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A folder that only links to results holds none."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "job").symlink_to(HARBOR_JOB)
    with pytest.raises(UsageError, match="holds no results that are known"):
        recognition.read(tmp_path / "folder")


def test_a_pipe_and_a_closed_folder(tmp_path: Path) -> None:
    """Nothing waits for a writer, and a refusal of the machine is one line."""
    pipe, closed = tmp_path / "x.json", tmp_path / "closed"
    os.mkfifo(pipe)
    closed.mkdir(mode=0)
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        recognition.read(pipe)
    with pytest.raises(UsageError, match="cannot be read|holds no results"):  # root may read all
        recognition.read(closed)


def test_a_file_that_is_nothing(tmp_path: Path) -> None:
    """Deep and broken JSON is one line."""
    for content in ("[" * 100_000, "{", "", '{"a": ' * 50_000, "\0"):
        path = tmp_path / "x.json"
        path.write_text(content)
        with pytest.raises(UsageError) as error:
            recognition.read(path)
        assert "\n" not in str(error.value)
