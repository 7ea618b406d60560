"""Imports of real mini-swe-agent trajectories, and gradings of predictions files."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from minisweagent.models.test_models import DeterministicModel, make_output
from minisweagent.run.benchmarks.swebench import process_instance
from minisweagent.run.benchmarks.utils.batch_progress import RunBatchProgressManager
from minisweagent.utils.serialize import recursive_merge
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats import filing, mini, swebench
from flows.formats.imported_arms import Comparisons, Summary
from flows.formats.predictions import PredictionSource
from flows.storage import report_files
from flows.storage.lake import Lake


@pytest.fixture
def trajectories(shared_data: Path) -> Path:
    return shared_data / "mini_trajectories"


@pytest.fixture
def source(shared_data: Path) -> PredictionSource:
    return PredictionSource("gemini", str(shared_data / "swebench" / "verified_test.parquet"))


def info(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())["info"]
    return content


def put(
    folder: Path,
    source: PredictionSource,
    arm: str,
    lake: str,
    comparisons: Comparisons | None = None,
) -> Summary:
    files = mini.read(folder, source)
    [summary] = filing.file(files, source.experiment, arm, lake, comparisons)
    return summary


def test_an_import_keeps_every_figure(
    trajectories: Path, source: PredictionSource, tmp_path: Path
) -> None:
    """Cost, calls and patch of each instance are those of its trajectory."""
    lake = str(tmp_path / "lake")
    imported = put(trajectories, source, "mini", lake)
    store = Lake.existing(lake)
    attempts = {
        row["instance_id"]: row
        for unit in store.units("attempts", "*")
        for row in store.find("attempts", unit)
    }
    assert imported.found == len(attempts) == 13
    for instance_id, attempt in attempts.items():
        own = info(trajectories / f"{instance_id}.traj.json")
        assert attempt["cost_usd"] == own["model_stats"]["instance_cost"]
        assert attempt["model_calls"] == own["model_stats"]["api_calls"]
        [prediction] = store.find("predictions", attempt["attempt_id"])
        assert prediction["model_patch"] == own["submission"]
        calls = store.find("llm_calls", attempt["attempt_id"])
        assert sum(call["cost_usd"] for call in calls) == pytest.approx(attempt["cost_usd"])
        assert attempt["cache_read_tokens"] == sum(call["cache_read_tokens"] for call in calls)


def test_calls_without_a_cost_are_counted_and_named(
    trajectories: Path, source: PredictionSource, tmp_path: Path
) -> None:
    """Calls without a cost are reported by the import, and the cost of their cell is incomplete."""
    name = "django__django-11163"
    content = json.loads((trajectories / f"{name}.traj.json").read_text())
    edited = copy.deepcopy(content)
    replies = [m for m in edited["messages"] if m["role"] == "assistant"]
    for message in replies[:2]:
        del message["extra"]["response"]["usage"]["cost"]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f"{name}.traj.json").write_text(json.dumps(edited))
    arguments = ["--dataset", source.dataset, "--name", "x", "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(app, ["import", "mini", str(tmp_path / "runs"), *arguments])
    assert result.exit_code == 0, result.output
    assert f"2 calls came without a cost: {name} (2)" in " ".join(result.stdout.split())
    [cell] = report_files.read(Lake.existing(str(tmp_path / "lake")), "x").cells
    assert cell.is_cost_complete is False


class Refused(DeterministicModel):
    """A model whose provider refuses the second call."""

    def query(self, messages: list[dict[str, str]], **kwargs: Any) -> dict[str, Any]:
        from litellm.exceptions import RateLimitError

        if self.current_index >= 0:
            raise RateLimitError("slow down", "acme", "acme/large")
        output: dict[str, Any] = super().query(messages, **kwargs)
        return output


def run_batch(folder: Path) -> None:
    """Run mini-swe-agent's own batch on four instances: each ends in another way."""
    ask = make_output("I look.", [{"command": "pwd"}], cost=0.25)
    give = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 'diff --git a/a b/a'"
    base = {
        "model": {
            "model_name": "acme/large",
            "outputs": [ask, make_output("Done.", [{"command": give}], cost=0.25)],
        },
        "agent": {"system_template": "Help.", "instance_template": "{{task}}"},
        "environment": {"environment_class": "local"},
    }
    here, package = f"{__name__}.Refused", "minisweagent.models.test_models.DeterministicModel"
    for name, model, changes in (
        ("acme__lib-1", package, {}),
        ("acme__lib-2", package, {"agent": {"cost_limit": 0.25}}),
        ("acme__lib-3", here, {}),
        ("acme__lib-4", package, {"environment": {"environment_class": "docker", "image": "none",
                                                  "executable": "false"}}),
    ):  # fmt: skip
        config = recursive_merge(base, changes, {"model": {"model_class": model}})
        progress = RunBatchProgressManager(1, folder / f"exit_statuses_{name}.yaml")
        row = {"instance_id": name, "problem_statement": "Fix it."}
        process_instance(row, folder, config, progress)


def test_a_batch_is_read_without_its_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance ends as the package says. One whose environment did not start is never run."""
    (tmp_path / "out").mkdir()
    run_batch(tmp_path / "out")
    files = mini.read(tmp_path / "out")
    found = {a.facts.instance_id: (a.facts.outcome, a.facts.cost_usd) for a in files.attempts}
    assert found == {
        "acme__lib-1": ("submitted", 0.5),
        "acme__lib-2": ("out_of_budget", 0.25),
        "acme__lib-3": ("infrastructure", 0.25),
    }
    assert (files.dataset, list(files.planned)) == ("out", ["acme__lib-4"])
    assert "counted as never run: 1 instance without a file" in capsys.readouterr().err
    preds = json.loads((tmp_path / "out" / "preds.json").read_text())
    for attempt in files.attempts:
        facts = attempt.facts
        assert (facts.repo, facts.exact_patch) == (
            "acme/lib",
            preds[facts.instance_id]["model_patch"],
        )
    arguments = ["--name", "x", "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(app, ["import", "mini", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 0, result.output
    [arm] = report_files.read(Lake.existing(str(tmp_path / "lake")), "x").arms
    assert (arm.planned, arm.started) == (4, 3)


@pytest.mark.full
def test_figures_that_a_trajectory_lacks_are_unknown(
    trajectories: Path, source: PredictionSource, tmp_path: Path
) -> None:
    """Calls without usage have unknown tokens. A trajectory without any price has an unknown cost,
    not 0."""
    name = "django__django-11163"
    content = json.loads((trajectories / f"{name}.traj.json").read_text())
    replies = [m for m in content["messages"] if m["role"] == "assistant"]
    for message in replies:
        message["extra"].pop("cost", None)
        del message["extra"]["response"]["usage"]["cost"]
    del replies[0]["extra"]["response"]["usage"]
    content["info"]["model_stats"]["instance_cost"] = 0.0
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f"{name}.traj.json").write_text(json.dumps(content))
    run = put(tmp_path / "runs", source, "mini", str(tmp_path / "lake"))
    assert (run.cost_usd, run.calls_without_cost) == (None, {name: len(replies)})
    report = report_files.read(Lake.existing(str(tmp_path / "lake")), "gemini")
    [arm] = report.arms
    assert report.audits == ()
    assert (arm.cost.usd, arm.tokens.input, arm.tokens.reasoning) == (None, None, None)
    assert arm.mean_calls == len(replies)
    calls = Lake.existing(str(tmp_path / "lake")).rows("llm_calls", "gemini")
    assert [call["input_tokens"] is None for call in calls] == [True] + [False] * (len(calls) - 1)


def test_an_export_is_the_official_format(
    trajectories: Path, source: PredictionSource, tmp_path: Path
) -> None:
    """swebench's own reader accepts an exported predictions file. A repeat without predictions is
    refused."""
    from swebench.harness.utils import get_predictions_from_file

    put(trajectories, source, "mini", str(tmp_path))
    [(path, count)] = swebench.write_predictions("gemini", tmp_path / "out", 0, Lake(tmp_path))
    read = get_predictions_from_file(str(path), source.dataset, "test")
    assert count == len(read) == 13
    assert set(read[0]) == {"instance_id", "model_name_or_path", "model_patch"}
    with pytest.raises(UsageError, match="no prediction of repeat 7"):
        list(swebench.write_predictions("gemini", tmp_path / "out", 7, Lake(tmp_path)))
