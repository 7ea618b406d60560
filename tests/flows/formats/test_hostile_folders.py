"""Folders of other systems that a stranger wrote: each is refused in one line."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InvalidSpec
from eval.errors import PredictionsError
from flows.display.errors import UsageError
from flows.formats import atif, harbor, inspect_import, mini, swebench
from flows.formats.attempts import ReadFiles
from tests.flows.formats.trajectories import HARBOR_JOB, asked, said, trajectory

DEEP = "[" * 100_000
HUGE = 10**30

RUN: dict[str, Any] = {
    "info": {"model_stats": {"instance_cost": 1.0, "api_calls": 1}, "exit_status": "Submitted"},
    "messages": [{"role": "assistant", "content": "Done.", "extra": {"cost": 1.0}}],
    "trajectory_format": "mini-swe-agent-1.1",
}


def write_run(folder: Path, **info: Any) -> None:
    (folder / "a__b-1.traj.json").write_text(json.dumps(RUN | {"info": RUN["info"] | info}))


def write_message(folder: Path, **message: Any) -> None:
    content = RUN | {"messages": [{"role": "assistant", "content": "x", **message}]}
    (folder / "a__b-1.traj.json").write_text(json.dumps(content))


def write_text(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return write


def link(name: str) -> Callable[[Path], None]:
    """Return a writer of a file that is a link to one outside of the folder."""

    def write(folder: Path) -> None:
        outside = folder.parent / "outside"
        outside.mkdir()
        (outside / "file").write_text(json.dumps(RUN))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(outside / "file")

    return write


def write_bomb(folder: Path) -> None:
    """Write a log of Inspect that says that it expands to more than a GiB."""
    with zipfile.ZipFile(folder / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", bytes(2**20))
        archive.infolist()[0].file_size = 2**30 + 1


def write_sparse(folder: Path) -> None:
    """Write a file without content that is larger than a GiB."""
    with (folder / "a.traj.json").open("wb") as file:
        file.truncate(2**30 + 1)


def write_trial(folder: Path, **fields: Any) -> None:
    trial = min(HARBOR_JOB.glob("*/result.json")).parent
    shutil.copytree(trial, folder / "trial")
    path = folder / "trial" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def write_trajectory(folder: Path, **fields: Any) -> None:
    content = trajectory(said("Do it."), asked("Done."), **fields)
    (folder / "a__b-1.json").write_text(json.dumps(content))


READERS: dict[str, Callable[[Path], ReadFiles]] = {
    "mini": mini.read,
    "harbor": lambda folder: harbor.read([folder], None),
    "atif": lambda folder: atif.read([folder]),
    "swebench": lambda folder: swebench.read(folder, None, None),
    "inspect": lambda folder: inspect_import.read([folder], None),
}

REFUSED: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "mini, a link": ("mini", link("a__b-1.traj.json"), "leads out of"),
    "mini, predictions by a link": (
        "mini",
        lambda folder: (write_run(folder), link("preds.json")(folder))[0],
        "leads out of",
    ),
    "mini, deep": ("mini", write_text("a.traj.json", DEEP), "not a mini-swe-agent trajectory"),
    "mini, cost of infinity": ("mini", lambda f: write_run(f, model_stats={
        "instance_cost": float("inf"), "api_calls": 1}), "cost"),
    "mini, cost of nothing": ("mini", lambda f: write_run(f, model_stats={
        "instance_cost": float("nan"), "api_calls": 1}), "cost"),
    "mini, two lines in a name": ("mini", lambda f: (f / "a\nb.traj.json").write_text(
        json.dumps(RUN)), "instance_id: Value error, must not have control"),
    "harbor, a name that turns the line": ("harbor", lambda f: write_trial(
        f, task_name="acme/\u202ea"), "instance_id: Value error, must not have control"),
    "harbor, a step outside": ("harbor", lambda f: write_trial(f, step_results=[
        {"step_name": "../../../other", "agent_result": {"cost_usd": float("nan")}}]), "finite"),
    "mini, year 10,000,000": ("mini", lambda f: write_message(
        f, extra={"timestamp": 1e300, "cost": 1.0}), "not a mini-swe-agent trajectory"),
    "mini, status is a list": ("mini", lambda f: write_run(f, exit_status=["x"]), "not a mini"),
    "mini, broken pattern": ("mini", lambda f: write_run(
        f, config={"model": {"action_regex": "("}}), "not a mini-swe-agent trajectory"),
    "harbor, a link": ("harbor", lambda f: (write_trial(f), (f / "trial/result.json").unlink(),
        link("trial/result.json")(f))[0], "leads out of"),
    "harbor, deep folders": ("harbor", lambda f: (f / "/".join("d" * 200)).mkdir(parents=True),
        "more than 100 folders inside each other"),
    "harbor, a pipe": ("harbor", lambda f: (write_trial(f), (f / "trial/config.json").unlink(),
        os.mkfifo(f / "trial/config.json"))[0], "config.json is not a file"),
    "harbor, deep": ("harbor", lambda f: (write_trial(f), write_text("trial/result.json", DEEP)(f)
        )[0], "not the result of a Harbor trial"),
    "harbor, reward of infinity": ("harbor", lambda f: write_trial(
        f, verifier_result={"rewards": {"reward": float("inf")}}), "finite"),
    "harbor, huge tokens": ("harbor", lambda f: write_trial(
        f, agent_result={"n_input_tokens": HUGE}), "n_input_tokens"),
    "harbor, cost below 0": ("harbor", lambda f: write_trial(
        f, agent_result={"cost_usd": -1}), "cost_usd"),
    "atif, larger than a GiB": ("atif", lambda f: (write_sparse(f), (f / "a.traj.json").rename(
        f / "a.json"))[0], "larger than 1 GiB"),
    "inspect, a bomb": ("inspect", write_bomb, "would expand to 1 GiB"),
    "inspect, a link": ("inspect", link("a.eval"), "contains no log"),
    "atif, a link": ("atif", link("a.json"), "leads out of"),
    "atif, deep": ("atif", write_text("a.json", '{"schema_version": "ATIF-v1.7", "a": ' + DEEP),
        "not an ATIF trajectory"),
    "atif, huge tokens": ("atif", lambda f: write_trajectory(
        f, final_metrics={"total_prompt_tokens": HUGE}), "total_prompt_tokens"),
    "swebench, a link": ("swebench", link("a__b-1/patch.diff"), "leads out of"),
    "swebench, deep": ("swebench", lambda f: (write_text("a__b-1/patch.diff", "")(f),
        write_text("a__b-1/report.json", DEEP)(f))[0], "is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_folder_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """The line names the file or its field, and no other error passes."""
    reader, write, message = REFUSED[name]
    if reader == "inspect":
        pytest.importorskip("inspect_ai", reason="needs the package inspect-ai")
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder)
    with pytest.raises((UsageError, InvalidSpec, PredictionsError)) as refusal:
        READERS[reader](folder)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value).replace("a\nb.traj", "")  # the terminal escapes a path
