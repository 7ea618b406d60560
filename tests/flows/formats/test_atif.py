"""Imports of ATIF trajectories."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats import atif, filing
from flows.formats.imported_arms import Summary
from flows.storage import report_files
from flows.storage.lake import Lake, Row
from tests.flows.formats.trajectories import asked, ran, said, trajectory, write


def put(lake: Lake, *paths: Path, arm: str | None = None) -> list[Summary]:
    return filing.file(atif.read(paths), "x", arm, str(lake.root))


def only(lake: Lake, table: str = "attempts") -> Row:
    [row] = lake.rows(table, "x")
    return row


def steps(lake: Lake) -> list[Row]:
    return sorted(lake.rows("steps", "x"), key=lambda row: (row["scope"], row["seq"]))


def test_every_figure_of_a_trajectory_is_in_the_lake(tmp_path: Path, lake: Lake) -> None:
    """Tokens, cost and calls of the attempt are the sums of its steps, and each call is a row."""
    path = write(tmp_path / "a__b-1.json", trajectory(said("do"), ran("ls", "x"), asked("done")))
    [summary] = put(lake, path)
    attempt = only(lake)
    assert (summary.arm, summary.label) == ("hand-acme-large", "hand · acme/large")
    assert (attempt["instance_id"], attempt["repo"]) == ("a__b-1", "a/b")
    assert (attempt["model_calls"], attempt["unpriced_calls"], attempt["cost_usd"]) == (2, 0, 0.5)
    assert (attempt["input_tokens"], attempt["cache_read_tokens"]) == (200, 120)
    assert attempt["output_tokens"] == 20
    assert attempt["cache_write_tokens"] is attempt["reasoning_tokens"] is None
    assert json.loads(attempt["versions"]) == {"hand": "1.0"}
    calls = lake.rows("llm_calls", "x")
    assert [(call["model"], call["cost_usd"]) for call in calls] == [("acme/large", 0.25)] * 2
    assert [step["kind"] for step in steps(lake)] == ["model", "command", "model"]
    assert json.loads(steps(lake)[1]["request"]) == {"command": "ls"}
    assert lake.rows("evaluations", "x") == lake.rows("predictions", "x") == []


def test_unknown_figures_stay_unknown(tmp_path: Path, lake: Lake) -> None:
    """Without figures, tokens and cost are null, and calls have an unknown price. A total cost of 0
    beside calls of unknown cost is unknown, too."""
    step = {"source": "agent", "message": "done"}
    total = {"total_cost_usd": 0.0}
    put(lake, write(tmp_path / "i.json", trajectory(said("do"), step, final_metrics=total)))
    attempt = only(lake)
    assert attempt["cost_usd"] is attempt["input_tokens"] is attempt["duration_s"] is None
    assert (attempt["model_calls"], attempt["unpriced_calls"]) == (1, 1)
    assert only(lake, "llm_calls")["cost_source"] == "unknown"
    [arm] = report_files.read(lake, "x").arms
    assert (arm.cost.usd, arm.started, arm.resolved) == (None, 1, 0)


def test_a_total_stands_for_itself(tmp_path: Path, lake: Lake) -> None:
    """A stated total replaces the sums, and no audit wants unpriced calls to add up to it."""
    step = {"source": "agent", "message": "done"}
    total = {"total_prompt_tokens": 7, "total_completion_tokens": 3, "total_cost_usd": 2.5}
    put(lake, write(tmp_path / "i.json", trajectory(said("do"), step, final_metrics=total)))
    attempt = only(lake)
    assert (attempt["cost_usd"], attempt["unpriced_calls"]) == (2.5, None)
    assert (attempt["input_tokens"], attempt["output_tokens"]) == (7, 3)
    report = report_files.read(lake, "x")
    assert report.audits == ()
    assert report.arms[0].cost.usd == 2.5


def test_a_step_may_hold_several_calls_or_none(tmp_path: Path, lake: Lake) -> None:
    """`llm_call_count` counts. Among steps with figures, one without them is part of another."""
    work = {"source": "agent", "message": "", "llm_call_count": 0}
    part = {"source": "agent", "message": "continues"}
    path = write(tmp_path / "i.json", trajectory(asked("a", llm_call_count=3), work, part))
    put(lake, path)
    assert only(lake)["model_calls"] == 3
    assert len(lake.rows("llm_calls", "x")) == 1
    assert report_files.read(lake, "x").audits == ()


def test_several_trajectories_at_an_instance_are_repeats(tmp_path: Path, lake: Lake) -> None:
    """They are numbered by time. An instance is named by a free field or by the file."""
    late, early = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
    one = trajectory(asked("late", timestamp=late), extra={"instance_id": "a__b-1"})
    write(tmp_path / "in" / "1.json", one)
    write(
        tmp_path / "in" / "a__b-1" / "trajectory.json", trajectory(asked("early", timestamp=early))
    )
    write(tmp_path / "in" / "other.json", {"format": "of something else"})
    [summary] = put(lake, tmp_path / "in")
    assert (summary.planned, summary.found) == (2, 2)
    rows = sorted(lake.rows("attempts", "x"), key=lambda row: row["repeat"])
    assert [row["instance_id"] for row in rows] == ["a__b-1", "a__b-1"]
    assert [row["started_at"].day for row in rows] == [1, 2]


def test_subagents_are_scopes(tmp_path: Path, lake: Lake) -> None:
    """Embedded subagents and those in files of their own are scopes of one attempt. What they copy
    from the main line is in it once."""
    ref = {"source_call_id": "c1", "subagent_trajectory_ref": [{"trajectory_id": "search"}]}
    beside = {"content": "ok", "subagent_trajectory_ref": [{"trajectory_path": "run.sum-1.json"}]}
    call = {"tool_call_id": "c1", "function_name": "task", "arguments": {"goal": "find"}}
    search = trajectory(said("find"), asked("found")) | {"trajectory_id": "search"}
    main = trajectory(
        said("do"),
        asked("I search", tool_calls=[call], observation={"results": [ref]}),
        asked("I sum up", observation={"results": [beside]}),
        subagent_trajectories=[search],
    )
    copied = {"source": "agent", "message": "I search", "is_copied_context": True}
    write(tmp_path / "in" / "run.json", main)
    write(tmp_path / "in" / "run.sum-1.json", trajectory(copied, said("sum up"), asked("in short")))
    put(lake, tmp_path / "in")
    assert (only(lake)["model_calls"], only(lake)["cost_usd"]) == (4, 1.0)
    models = [
        (s["scope"], json.loads(s["result"])["content"])
        for s in steps(lake)
        if s["kind"] == "model"
    ]
    assert models == [
        ("", "I search"),
        ("", "I sum up"),
        ("run.sum-1", "in short"),
        ("search", "found"),
    ]
    used = [json.loads(step["result"]) for step in steps(lake) if step["kind"] == "action"]
    assert used == [
        {"content": None, "subagents": ["search"]},
        {"content": "ok", "subagents": ["run.sum-1"]},
    ]


def test_a_continuation_is_part_of_its_attempt(tmp_path: Path, lake: Lake) -> None:
    """The second file is no attempt of its own, and its totals are those of the attempt."""
    first = trajectory(said("do"), asked("first"), continued_trajectory_ref="run.cont-1.json")
    copied = {"source": "agent", "message": "first", "is_copied_context": True}
    total = {"total_cost_usd": 0.5, "total_prompt_tokens": 200}
    write(tmp_path / "in" / "run.json", first)
    write(
        tmp_path / "in" / "run.cont-1.json",
        trajectory(copied, asked("second"), final_metrics=total),
    )
    put(lake, tmp_path / "in")
    assert (only(lake)["model_calls"], only(lake)["cost_usd"]) == (2, 0.5)
    answers = [json.loads(step["result"])["content"] for step in steps(lake)]
    assert answers == ["first", "second"]


@pytest.mark.parametrize("version", [0, 8])
def test_the_first_and_the_last_version_are_read(tmp_path: Path, lake: Lake, version: int) -> None:
    """And so are the versions in between."""
    content = trajectory(asked("done"), schema_version=f"ATIF-v1.{version}", session_id="s")
    put(lake, write(tmp_path / "i.json", content))
    assert only(lake)["model_calls"] == 1


def changed(step: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return trajectory(said("do"), asked("a") | (step or {}), **more)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (changed(schema_version="ATIF-v1.9"), "schema_version is 'ATIF-v1.9'; known: ATIF-v1.0 to"),
        (changed({"step_id": 5}), "step_id=5 is not sequential"),
        (changed({"colour": "red"}), "steps.1.colour: Extra inputs are not permitted"),
        (
            changed({"metrics": {"cost_usd": -1}}),
            "step 2: cost_usd is -1.0, and must be at least 0",
        ),
        (changed({"metrics": {"prompt_tokens": -1}}), "step 2: input_tokens is -1"),
        (changed(final_metrics={"total_cost_usd": float("nan")}), "total_cost_usd is nan"),
        (changed(extra={"durabench": {}}), "durabench.agent: Field required"),
        (trajectory(), "steps: it has none"),
        (
            changed({"observation": {"results": [{"source_call_id": "c9", "content": ""}]}}),
            "step 2: a result is of the call 'c9'",
        ),
    ],
)
def test_a_bad_file_is_one_line_and_nothing_is_written(
    tmp_path: Path, lake: Lake, content: dict[str, Any], problem: str
) -> None:
    """The exit code is 2, the line names file and problem, and good files beside it are not
    imported."""
    write(tmp_path / "in" / "good.json", trajectory(asked("good")))
    path = write(tmp_path / "in" / "bad.json", content)
    argv = ["import", "atif", str(tmp_path / "in"), "--name", "x", "--lake", str(lake.root)]
    done = CliRunner().invoke(app, argv)
    assert done.exit_code == 2
    [line] = done.stderr.strip().split("\n")
    assert str(path) in line
    assert problem in line
    assert not lake.root.exists()


def test_what_cannot_be_read_is_named(tmp_path: Path, lake: Lake) -> None:
    """A missing file, a folder without a trajectory, broken JSON, and one attempt given twice."""
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema_version": "ATIF-v1.7", "steps": [')
    one = write(tmp_path / "i.json", trajectory(asked("a")))
    copy = write(tmp_path / "copy" / "i.json", trajectory(asked("a")))
    (tmp_path / "empty").mkdir()
    for paths, problem in (
        ([tmp_path / "none.json"], "none.json cannot be read: No such file or directory"),
        ([tmp_path / "empty"], "contains no ATIF trajectory"),
        ([broken], "not an ATIF trajectory \\(Invalid JSON"),
        ([one, copy], "are the same attempt: give one of them"),
    ):
        with pytest.raises(UsageError, match=problem):
            put(lake, *paths)
    put(lake, one, one)  # the same path is one file
