"""Imports of real logs of Inspect, which Inspect writes here with its mock model."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("inspect_ai", reason="needs the package inspect-ai")

from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.scorer import Score

from flows.cli.app import app
from flows.formats import filing, inspect_import
from flows.formats.imported_arms import Summary
from flows.storage import report_files
from flows.storage.lake import Lake, Row
from tests.flows.formats import inspect_tasks
from tests.flows.formats.inspect_tasks import INPUT, OUTPUT, READ, REASONING, WRITTEN

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two epochs, one right and one wrong."""
    return inspect_tasks.run(tmp_path_factory.mktemp("logs"), ["42", "41"])


def put(lake: Lake, *paths: Path, scorer: str | None = None) -> list[Summary]:
    return filing.file(inspect_import.read(paths, scorer), "x", None, str(lake.root))


def attempts(lake: Lake) -> list[Row]:
    return sorted(lake.rows("attempts", "x"), key=lambda row: row["repeat"])


def rewritten(log: Path, to: Path, **changes: Any) -> Path:
    """Write a log whose first sample is changed."""
    content = read_eval_log(str(log), resolve_attachments=True)
    assert content.samples
    content.samples[0] = content.samples[0].model_copy(update=changes)
    write_eval_log(content, str(to))
    return to


def test_a_log_is_repeats_verdicts_and_figures(log: Path, lake: Lake) -> None:
    """An epoch is a repeat, C is resolved, and tokens and costs are the sums of the calls, cached
    input included."""
    [arm] = put(lake, log)
    assert (arm.label, arm.resolved, arm.planned) == ("react · mockllm/model", 1, 2)
    for row in attempts(lake):
        assert row["instance_id"] == "a__b-1"
        assert (row["model_calls"], row["cost_usd"]) == (6, pytest.approx(0.06))
        assert row["input_tokens"] == 6 * (INPUT + READ + WRITTEN)
        assert row["cache_read_tokens"] == 6 * READ
        assert row["cache_write_tokens"] == 6 * WRITTEN
        assert (row["output_tokens"], row["reasoning_tokens"]) == (6 * OUTPUT, 6 * REASONING)
        assert row["duration_s"] > 0
        assert row["outcome"] == "submitted"
    report = report_files.read(lake, "x")
    assert report.audits == ()
    assert report.arms[0].resolved == 1


def test_calls_tools_and_subagents_are_steps(log: Path, lake: Lake) -> None:
    """A subagent is a scope, a command is a command, and the error of a tool is its result."""
    put(lake, log)
    rows = [row for row in lake.rows("steps", "x") if row["repeat"] == 0]
    shown = [(row["scope"], row["kind"], row["seq"]) for row in rows]
    assert sorted(shown) == [
        *[("", kind, seq) for seq, kind in ((3, "action"), (5, "action"), (7, "action"))],
        ("", "command", 1),
        *[("", "model", seq) for seq in (0, 2, 4, 6)],
        ("searcher", "action", 3),
        ("searcher", "command", 1),
        *[("searcher", "model", seq) for seq in (0, 2)],
    ]
    found = {(row["scope"], row["seq"]): json.loads(row["result"]) for row in rows}
    assert found["", 3]["subagents"] == ["searcher"]
    assert found["", 5] == "file_not_found: /none"
    asked = {(row["scope"], row["seq"]): json.loads(row["request"]) for row in rows}
    assert asked["", 1] == {"command": "cat answer"}
    assert asked["", 0]["messages"][-1] == {"role": "user", "content": "What is the answer?"}
    assert asked["", 2] == {}


@pytest.mark.full
def test_the_two_formats_are_one(tmp_path: Path, lake: Lake) -> None:
    """A .json log gives the same rows as an .eval log. Without prices, the cost is unknown."""
    form = inspect_tasks.run(tmp_path / "logs", ["41"], cost=None, form="json")
    put(lake, form)
    [row] = attempts(lake)
    assert (row["model_calls"], row["unpriced_calls"], row["cost_usd"]) == (6, 6, None)
    converted = tmp_path / "same.eval"
    write_eval_log(read_eval_log(str(form)), str(converted))
    other = Lake(tmp_path / "other")
    put(other, converted)
    for table in ("attempts", "llm_calls", "steps", "evaluations"):
        assert str(other.rows(table, "x")) == str(lake.rows(table, "x"))
    again = Lake(tmp_path / "again")
    assert put(again, form, converted)[0].found == 1


@pytest.mark.full
def test_the_calls_of_scorers_are_not_the_agents(tmp_path: Path, lake: Lake) -> None:
    """A model that grades costs the agent nothing. A score between 0 and 1 is not resolved, and
    the patch beside it is the prediction."""
    scorers = [inspect_tasks.graded_by_a_model()]
    put(lake, inspect_tasks.run(tmp_path / "logs", scorers=scorers))
    [row] = attempts(lake)
    assert (row["model_calls"], row["cost_usd"]) == (6, pytest.approx(0.06))
    [graded], [patch] = lake.rows("evaluations", "x"), lake.rows("predictions", "x")
    assert (graded["resolved"], patch["model_patch"]) == (False, "diff --git a/a b/a\n")


@pytest.mark.full
def test_an_error_is_infrastructure(log: Path, tmp_path: Path, lake: Lake) -> None:
    """A sample that an error ended has no verdict, and neither has one that was invalidated."""
    from inspect_ai.log import EvalError, ProvenanceData

    error = EvalError(message="the sandbox is gone", traceback="", traceback_ansi="")
    put(lake, rewritten(log, tmp_path / "error.eval", error=error, scores=None))
    assert attempts(lake)[0]["outcome"] == "infrastructure"
    assert attempts(lake)[0]["detail"] == "the sandbox is gone"
    assert len(lake.rows("evaluations", "x")) == 1
    mark = ProvenanceData(author="me")
    put(lake, rewritten(log, tmp_path / "invalid.eval", invalidation=mark))
    assert attempts(lake)[0]["outcome"] == "infrastructure"


@pytest.mark.full
def test_of_a_retried_task_the_last_log_counts(log: Path, tmp_path: Path, lake: Lake) -> None:
    """A retry has the same task, so its samples replace those of the first log; another run of the
    task is more repeats."""
    retried = read_eval_log(str(log), resolve_attachments=True)
    retried.eval.created = "2036-01-01T00:00:00+00:00"
    assert retried.samples
    retried.samples[0].uuid = "again"
    write_eval_log(retried, str(tmp_path / "retry.eval"))
    assert put(lake, log, tmp_path / "retry.eval")[0].found == 2
    retried.eval.task_id = "another run"
    for number, sample in enumerate(retried.samples):
        sample.uuid = f"other-{number}"
    write_eval_log(retried, str(tmp_path / "other.eval"))
    assert put(lake, log, tmp_path / "other.eval")[0].found == 4
    assert [row["repeat"] for row in attempts(lake)] == [0, 1, 2, 3]


@pytest.mark.full
def test_without_events_only_the_sums_are_known(log: Path, tmp_path: Path, lake: Lake) -> None:
    """A log without events has tokens and cost in total, and an unknown number of calls."""
    put(lake, rewritten(log, tmp_path / "bare.eval", events=[]))
    row = attempts(lake)[0]
    assert (row["model_calls"], row["unpriced_calls"]) == (None, None)
    assert (row["input_tokens"], row["cost_usd"]) == (6 * 180, pytest.approx(0.06))
    assert report_files.read(lake, "x").audits == ()


def test_bad_logs_are_one_line(log: Path, tmp_path: Path, lake: Lake) -> None:
    """Exit code 2, the file and what is wrong with it, and nothing is written."""
    broken = tmp_path / "broken.eval"
    broken.write_bytes(log.read_bytes()[:1000])
    (tmp_path / "text.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    words = rewritten(log, tmp_path / "words.eval", scores={"judge": Score(value="fine")})
    percent = rewritten(log, tmp_path / "percent.eval", scores={"judge": Score(value=85)})
    bare = read_eval_log(str(log))
    bare.samples = []
    write_eval_log(bare, str(tmp_path / "none.eval"))
    for path, problem in (
        (broken, "broken.eval: not a log of Inspect ("),
        (tmp_path / "text.json", "text.json: not a log of Inspect ("),
        (tmp_path / "missing.eval", "missing.eval cannot be read: there is no such file"),
        (tmp_path / "empty", "empty contains no log of Inspect"),
        (tmp_path / "none.eval", "none.eval has no samples: run the task without"),
        (words, "is 'fine', and must be a number or C, I, P or N"),
        (percent, "is 85, but a resolved sample scores 1"),
    ):
        argv = ["import", "inspect", str(path), "--name", "x", "--lake", str(lake.root)]
        done = CliRunner().invoke(app, argv)
        assert done.exit_code == 2, done.output
        [line] = done.stderr.strip().split("\n")
        assert problem in line
    assert not lake.root.exists()


def test_without_the_package_a_line_says_how_to_get_it(
    log: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is an extra."""
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    for argv in (
        ["import", "inspect", str(log), "--name", "x"],
        ["export", "x", "--inspect", "x.eval"],
    ):
        done = CliRunner().invoke(app, [*argv, "--lake", str(lake.root)])
        assert done.exit_code == 2
        assert "pip install 'durabench[inspect]'" in done.stderr
