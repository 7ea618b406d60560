"""Submissions graded by swebench, written by its own functions and compared in a report."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval import instances
from eval.predictions import write_jsonl
from eval.types import Instance, Prediction
from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats import filing, swebench
from flows.formats.imported_arms import Summary
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import Report

INSTANCES = instances.load("bundled")[:8]

ENDINGS = ["resolved", "unresolved", "memory", "slow", "error", "empty", "resolved", "none"]
"""Endings of the first submission's predictions. The last instance has no prediction."""

STATES = {
    "resolved": 2,
    "unresolved": 2,
    "infrastructure": 1,
    "timeout": 1,
    "no_patch": 1,
    "missing": 1,
}


@dataclass(frozen=True)
class Published:
    """One submission on disk."""

    logs: Path
    """A folder per instance."""
    predictions: Path
    report: Path


def publish(root: Path, model: str, endings: list[str], patch: pytest.MonkeyPatch) -> Published:
    """Write the files of an official run with swebench's own reporting functions."""
    from swebench.harness import reporting as official

    logs = root / "logs" / "run" / model.replace("/", "__")
    predictions = {
        instance.instance_id: {
            "instance_id": instance.instance_id,
            "model_name_or_path": model,
            "model_patch": "" if ending == "empty" else instance.patch,
        }
        for instance, ending in zip(INSTANCES, endings, strict=True)
        if ending != "none"
    }
    for instance, ending in zip(INSTANCES, endings, strict=True):
        if ending not in ("empty", "none"):
            write_logs(logs / instance.instance_id, instance, ending)
    path = root / "all_preds.jsonl"
    write_jsonl(path, [Prediction(**prediction) for prediction in predictions.values()])
    patch.setattr(official, "RUN_EVALUATION_LOG_DIR", root / "logs")
    rows = [instance.row for instance in INSTANCES]
    return Published(
        logs, path, official.make_run_report(predictions, rows, "run", None, str(root))
    )


def write_logs(folder: Path, instance: Instance, ending: str) -> None:
    from swebench.harness.grading import get_eval_report
    from swebench.harness.utils import make_test_spec

    folder.mkdir(parents=True)
    (folder / "patch.diff").write_bytes(instance.patch.encode())
    log = folder / "test_output.txt"
    log.write_text(
        {
            "memory": "Cannot allocate memory\n",
            "slow": "Timeout error: 5 seconds exceeded.",
            "error": "",
            "resolved": log_of(instance, instance.fail_to_pass + instance.pass_to_pass),
            "unresolved": log_of(instance, instance.pass_to_pass),
        }[ending]
    )
    if ending in ("slow", "error"):
        return
    prediction = {"instance_id": instance.instance_id, "model_patch": instance.patch}
    report = get_eval_report(make_test_spec(instance.row), prediction, str(log), True)
    (folder / "report.json").write_text(json.dumps(report))


def log_of(instance: Instance, passing: Iterable[str]) -> str:
    assert instance.log_parser == "parse_log_pytest"
    lines = "".join(f"PASSED {test}\n" for test in passing)
    return f">>>>> Start Test Output\n{lines}>>>>> End Test Output\n"


def put_submission(
    report: Path, predictions: Path | None, name: str, arm: str | None, lake: str
) -> Summary:
    [summary] = filing.file(swebench.read(report, predictions, arm), name, arm, lake)
    return summary


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    return publish(tmp_path / "first", "Somebody/Model-1", ENDINGS, monkeypatch)


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    endings = ["unresolved"] * 4 + ["none"] * 4
    return publish(tmp_path / "second", "other", endings, monkeypatch)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def read(lake: str, name: str = "x") -> Report:
    return report_files.read(Lake.existing(lake), name)


def states(report: Report, arm: str) -> dict[str, int]:
    return {state: cells for state, cells in report.arm(arm).states.items() if cells}


def test_a_run_report_is_imported(first: Published, lake: str) -> None:
    """An imported run report plans every instance of the dataset, and each ending has its state and
    reason."""
    summary = put_submission(first.report, first.predictions, "x", None, lake)
    assert summary == Summary("somebody-model-1", 8, found=7, resolved=2, cost_usd=None)
    report = read(lake)
    assert (report.audits, states(report, "somebody-model-1")) == ((), STATES)
    reasons = {cell.state: cell.reason for cell in report.cells}
    assert reasons["infrastructure"] == "out_of_memory"
    assert reasons["timeout"] == "tests_timed_out"
    assert report.arm("somebody-model-1").model == "unknown"


def test_the_folder_of_a_run_is_imported(first: Published, lake: str) -> None:
    """An imported run folder includes the tests behind each verdict, and the patches if no
    predictions are given."""
    put_submission(first.logs, first.predictions, "x", None, lake)
    found = states(read(lake), "somebody-model-1")
    # The folder contains neither the dataset nor the reason why a run ended early.
    assert found == {"resolved": 2, "unresolved": 3, "infrastructure": 1, "no_patch": 1}
    store = Lake.existing(lake)
    rows = [
        row for unit in store.units("evaluations", "*") for row in store.find("evaluations", unit)
    ]
    graded = {row["instance_id"]: row for row in rows}
    instance = INSTANCES[1]
    row = graded[instance.instance_id]
    assert row["fail_to_pass_failure"] == list(instance.fail_to_pass)
    assert row["pass_to_pass_success"] == list(instance.pass_to_pass)

    put_submission(first.logs, None, "y", "alone", lake)
    assert states(read(lake, "y"), "alone") == {"resolved": 2, "unresolved": 3, "infrastructure": 1}
    patches = {
        row["model_patch"]
        for unit in store.units("predictions", "*", "y")
        for row in store.find("predictions", unit)
    }
    assert patches == {instance.patch for instance in [*INSTANCES[:5], INSTANCES[6]]}


def test_two_submissions_under_one_name_are_compared(
    first: Published, second: Published, lake: str
) -> None:
    """Two submissions under one name are arms over the instances of both. Importing one again adds
    nothing."""
    for submission in (first, second, first):
        arguments = [str(submission.report), "--predictions", str(submission.predictions)]
        result = CliRunner().invoke(
            app, ["import", "swebench", *arguments, "--name", "x", "--lake", lake]
        )
        assert result.exit_code == 0, result.output
    report = read(lake)
    assert [arm.name for arm in report.arms] == ["somebody-model-1", "other"]
    assert {arm.planned for arm in report.arms} == {8}
    assert states(report, "other") == {"unresolved": 4, "missing": 4}
    [pair] = report.comparisons
    assert (pair.role, pair.table.only_baseline, pair.table.neither) == ("exploratory", 2, 6)
    assert (report.audits, report.source.later_plans) == ((), ())
    store = Lake.existing(lake)
    assert len(store.units("experiments", "*", "x", "somebody-model-1")) == 2


def test_leaderboard_results_need_the_predictions(first: Published, lake: str) -> None:
    """Leaderboard results name only what was resolved, so they need the predictions: all others are
    unresolved or empty."""
    ids = [instance.instance_id for instance in INSTANCES]
    path = first.report.with_name("results.json")
    content = {"no_generation": [ids[5]], "no_logs": [ids[4]], "resolved": [ids[0]]}
    path.write_text(json.dumps(content))
    put_submission(path, first.predictions, "x", None, lake)
    assert states(read(lake), "somebody-model-1") == {"resolved": 1, "unresolved": 5, "no_patch": 1}
    with pytest.raises(UsageError, match="does not name every prediction"):
        put_submission(path, None, "x", "a", lake)


def test_files_that_do_not_belong_together_are_refused(
    first: Published, second: Published, lake: str, tmp_path: Path
) -> None:
    """Predictions of another submission, several models or runs and other JSON files are
    refused."""
    cases: list[tuple[Path, Path | None, str]] = [
        (first.report, second.predictions, "is not about these predictions"),
        (first.logs, second.predictions, "is not about these predictions"),
        (first.report, None, "does not name its model"),
        (tmp_path, None, "twice: give the folder of one run"),
        (tmp_path / "absent.json", None, "cannot be read"),
        (first.predictions, None, "is not JSON"),
        (first.logs / INSTANCES[0].instance_id / "report.json", None, "is not a run report"),
        (empty(tmp_path), None, "contains no folder of an instance"),
    ]
    for report, given, message in cases:
        with pytest.raises(UsageError, match=message):
            put_submission(report, given, "x", None, lake)
    assert not Path(lake).exists()


def empty(root: Path) -> Path:
    folder = root / "empty"
    folder.mkdir()
    return folder
