"""Attempts as ATIF trajectories: what goes in comes out, and the package and Harbor accept it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats import atif, exports, filing
from flows.storage.lake import Lake, Row
from reports.columns import TABLES
from tests.flows.formats.trajectories import HARBOR, HARBOR_JOB, asked, ran, said, trajectory, write

OWN = {"attempt_id", "request_digest"}
"""Columns that name a row of one import."""


def put(lake: Lake, *paths: Path) -> None:
    filing.file(atif.read(paths), "x", None, str(lake.root))


def out(lake: Lake, folder: Path, name: str = "x") -> list[Path]:
    return list(exports.trajectories(name, folder, str(lake.root)))


def known(lake: Lake) -> dict[str, list[str]]:
    """Return everything that a lake knows of the attempts, by table."""
    return {
        table: sorted(_text(row) for row in lake.rows(table, "x"))
        for table in TABLES.keys() - {"experiments"}
    }


def _text(row: Row) -> str:
    return json.dumps({k: v for k, v in row.items() if k not in OWN}, default=str, sort_keys=True)


def rich() -> dict[str, Any]:
    """A trajectory with everything that the lake has a place for."""
    call = {"tool_call_id": "c2", "function_name": "task", "arguments": {"goal": "find"}}
    ref = {"source_call_id": "c2", "content": "ok"}
    ref["subagent_trajectory_ref"] = [{"trajectory_id": "search"}]  # type: ignore[assignment]
    dispatch = {
        "source": "agent",
        "message": "",
        "llm_call_count": 0,
        "tool_calls": [{"tool_call_id": "w", "function_name": "apply", "arguments": {"n": 1}}],
        "observation": {"results": [{"source_call_id": "w", "content": "applied"}]},
    }
    seen = [{"type": "text", "text": "look"}, {"type": "image", "source": _image()}]
    figures = {"prompt_tokens": 9, "extra": {"reasoning_tokens": 4, "cache_write_tokens": 2}}
    inner = trajectory(said("find"), asked("found", reasoning_content="hm"))
    return trajectory(
        said("be good", "system"),
        {"source": "user", "message": seen},
        ran("ls", "x\ny"),
        asked("I search", tool_calls=[call], observation={"results": [ref]}),
        asked("no call", observation={"results": [{"content": "the screen"}]}),
        dispatch,
        {"source": "agent", "message": "done", "metrics": figures, "model_name": "acme/small"},
        subagent_trajectories=[inner | {"trajectory_id": "search"}],
    )


def _image() -> dict[str, str]:
    return {"media_type": "image/png", "path": "a.png"}


@pytest.mark.parametrize("given", ["everything", "a job of Harbor"])
def test_a_round_trip_loses_nothing(given: str, tmp_path: Path, lake: Lake) -> None:
    """After an export and a second import, the lake has the same rows, and the files have the same
    steps."""
    files = [*HARBOR_JOB.rglob("trajectory.json")]
    if given == "everything":
        files = [write(tmp_path / "a__b-1.json", rich())]
    put(lake, HARBOR_JOB if len(files) > 1 else files[0])
    written = out(lake, tmp_path / "out")
    again = Lake(tmp_path / "again")
    put(again, *written)
    assert known(again) == known(lake)
    assert {row["kind"] for row in lake.rows("steps", "x")} >= {"command", "model"}
    assert sorted(map(_essences, written)) == sorted(map(_essences, files))


def _essences(path: Path) -> str:
    """Return the steps of a trajectory and of its subagents."""
    content = json.loads(path.read_text())
    inner = content.get("subagent_trajectories") or []
    parts = [("", content), *((each["trajectory_id"], each) for each in inner)]
    return json.dumps(
        [[name, [_essence(step) for step in each["steps"]]] for name, each in parts],
        sort_keys=True,
    )


def _essence(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step without free fields, and without what the lake has no place for: the times of
    messages and the ids of calls that no model made."""
    shown = json.loads(json.dumps(step))
    shown.pop("extra", None)
    if step["source"] != "agent":
        shown.pop("timestamp", None)
    elif step.get("llm_call_count") == 0:
        shown["tool_calls"][0].pop("tool_call_id")
        shown["observation"]["results"][0].pop("source_call_id")
    else:
        shown["llm_call_count"] = 1
        shown["timestamp"] = step.get("timestamp", "").replace("Z", "+00:00")
    for result in (shown.get("observation") or {}).get("results", ()):
        result.pop("extra", None)
    (shown.get("metrics") or {}).pop("extra", None)
    return dict(shown)


def test_one_attempt_is_one_file(tmp_path: Path, lake: Lake) -> None:
    """The beginning of an id chooses an attempt; the file, or a folder for it, is as given."""
    put(lake, write(tmp_path / "a__b-1.json", rich()))
    [attempt_id] = lake.units("attempts", "*")
    path = tmp_path / "one.json"
    argv = ["export", attempt_id[:6], "--atif", str(path), "--lake", str(lake.root)]
    done = CliRunner().invoke(app, argv)
    assert (done.exit_code, done.stdout.strip()) == (0, str(path))
    one = Trajectory.model_validate_json(path.read_bytes())
    assert one.trajectory_id == attempt_id
    assert out(lake, tmp_path, attempt_id) == [tmp_path / "a__b-1.0.json"]


def test_bad_exports_are_one_line(tmp_path: Path, lake: Lake) -> None:
    """An unknown name, and a file where a folder is needed."""
    put(lake, write(tmp_path / "a__b-1.json", rich()))
    with pytest.raises(UsageError, match="no experiment and no finished attempt 'none' in"):
        out(lake, tmp_path / "out", "none")
    with pytest.raises(UsageError, match="is a file: name a folder for the attempts of 'x'"):
        out(lake, tmp_path / "a__b-1.json")


def test_harbor_accepts_what_is_written(tmp_path: Path, lake: Lake) -> None:
    """Harbor's own validator finds no error in any export."""
    python = os.environ.get(HARBOR)
    if python is None:
        pytest.skip(f"set {HARBOR} to a Python of 3.12 or newer with the package harbor")
    put(lake, write(tmp_path / "in" / "a__b-1.json", rich()), HARBOR_JOB)
    paths = out(lake, tmp_path / "out")
    assert len(paths) == 9
    assert harbor_errors(python, paths) == ""


def harbor_errors(python: str, paths: list[Path]) -> str:
    """Return what Harbor's validator finds in files."""
    code = (
        "import sys; from harbor.utils.trajectory_validator import TrajectoryValidator as V\n"
        "for path in sys.argv[1:]:\n"
        "    v = V(); v.validate(path, validate_images=False); print(*v.errors, sep='', end='')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [python, "-c", code, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return run.stdout
