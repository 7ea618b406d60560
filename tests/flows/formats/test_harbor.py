"""Imports of job folders of Harbor. The folders beside this file are what Harbor itself wrote."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.formats import filing, harbor
from flows.formats.harbor_files import INFRASTRUCTURE, OF_VERIFIER
from flows.formats.imported_arms import Summary
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.flows.formats.trajectories import HARBOR, HARBOR_JOB

ENDINGS = Path(__file__).parent / "harbor_endings"
"""A job of Harbor 0.26: a provider that fails, a verifier without a reward, a task of two steps."""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A copy of the job, to be changed."""
    return Path(shutil.copytree(HARBOR_JOB, tmp_path / "job"))


def put(lake: Lake, folder: Path, reward: str | None = None) -> list[Summary]:
    return filing.file(harbor.read([folder], reward), "x", None, str(lake.root))


def change(folder: Path, **fields: Any) -> None:
    """Change fields of the first trial's result."""
    path = min(folder.glob("*/result.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def first(lake: Lake, job: Path) -> dict[str, Any]:
    """Return the attempt of the first trial."""
    started = json.loads(min(job.glob("*/result.json")).read_text())["started_at"]
    [row] = [
        row
        for row in lake.rows("attempts", "x")
        if row["started_at"].isoformat()[:23] == started[:23]
    ]
    return row


def test_a_job_is_arms_repeats_verdicts_and_figures(lake: Lake) -> None:
    """A model is an arm, a trial a repeat, a reward of 1 resolves, and all totals are those that
    Harbor states."""
    arms = put(lake, HARBOR_JOB)
    assert [(arm.label, arm.resolved, arm.planned, arm.found) for arm in arms] == [
        ("scripted · acme/bad-model", 0, 4, 4),
        ("scripted · acme/good-model", 4, 4, 4),
    ]
    stated = json.loads((HARBOR_JOB / "result.json").read_text())["stats"]
    rows = lake.rows("attempts", "x")
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(stated["cost_usd"])
    assert sum(row["input_tokens"] for row in rows) == stated["n_input_tokens"]
    assert sum(row["cache_read_tokens"] for row in rows) == stated["n_cache_tokens"]
    assert sum(row["output_tokens"] for row in rows) == stated["n_output_tokens"]
    assert all(row["model_calls"] == 2 and row["duration_s"] > 0 for row in rows)
    assert {row["instance_id"] for row in rows} == {"answer__right-1", "answer__slow-2"}
    report = report_files.read(lake, "x")
    assert report.audits == ()
    assert [arm.resolved for arm in report.arms] == [0, 4]


def test_the_rewards_that_count_are_harbors(lake: Lake) -> None:
    """A reward beside a failure of the provider is none, and of a trial without one, the verifier
    failed. A trial of two steps has the usage of both."""
    arms = put(lake, ENDINGS)
    stated = json.loads((ENDINGS / "result.json").read_text())["stats"]
    files = harbor.read([ENDINGS], None).attempts
    counted = Counter(
        {"gold": "oracle"}.get(attempt.facts.agent, f"scripted__{attempt.facts.model}")
        for attempt in files
        if attempt.facts.verdict in ("resolved", "unresolved")
    )
    assert counted == {
        name[: -len("__more")]: of["n_trials"] for name, of in stated["evals"].items()
    }
    assert [(arm.label, arm.resolved, arm.planned) for arm in arms] == [
        ("gold · none", 2, 3),
        ("scripted · acme/bad-model", 0, 3),
        ("scripted · acme/good-model", 1, 3),
    ]
    report = report_files.read(lake, "x")
    states = Counter(cell.state for cell in report.cells)
    assert states == {"resolved": 3, "unresolved": 1, "infrastructure": 5}
    rows = lake.rows("attempts", "x")
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(stated["cost_usd"])
    assert sum(row["input_tokens"] for row in rows) == stated["n_input_tokens"]
    assert {row["model_calls"] for row in rows if "stages" in row["instance_id"]} == {0, 4}


@pytest.mark.parametrize("job", [HARBOR_JOB, ENDINGS], ids=["job", "endings"])
def test_calls_are_counted_without_reading_the_steps(job: Path) -> None:
    """A comparison states as many calls as an import."""
    quick, whole = (
        {a.digest: a.facts.model_calls for a in harbor.read([job], None, with_steps=steps).attempts}
        for steps in (False, True)
    )
    assert quick == whole
    assert any(quick.values())


@pytest.mark.skipif(HARBOR not in os.environ, reason=f"{HARBOR} is not set")
def test_failures_without_a_valid_reward_are_harbors() -> None:
    """Harbor's own table of exceptions is the one that is used for results of earlier releases."""
    program = """
from harbor.models.trial.error_policy import ERROR_POLICIES
print(*(name for name, policy in ERROR_POLICIES.items() if not policy.has_valid_reward))
"""
    done = subprocess.run(
        [os.environ[HARBOR], "-c", program], capture_output=True, text=True, check=True
    )
    ours = f"CancelledError {OF_VERIFIER} {INFRASTRUCTURE}"
    assert sorted(done.stdout.split()) == sorted(ours.split())


def test_a_job_decides_which_rewards_count(lake: Lake, tmp_path: Path) -> None:
    """The policy that a result states goes before the usual one."""
    job = Path(shutil.copytree(ENDINGS, tmp_path / "job"))
    for path in job.glob("*/result.json"):
        content = json.loads(path.read_text())
        if content["exception_info"]:
            content["exception_info"]["policy"]["has_valid_reward"] = True
        path.write_text(json.dumps(content))
    assert [arm.resolved for arm in put(lake, job)] == [2, 0, 2]


def test_a_planned_task_without_a_trial_stays_in_every_denominator(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that was stopped planned more than it ran. What an agent wrote is no trial."""
    job = Path(shutil.copytree(ENDINGS, tmp_path / "job"))
    for trial in job.glob("answer__stages*"):
        shutil.rmtree(trial)
    forged = max(job.glob("answer__limited*"))
    shutil.copytree(forged, forged / "artifacts" / "more")
    assert [(arm.found, arm.planned) for arm in put(lake, job)] == [(2, 3), (2, 3), (2, 3)]
    assert "counted as never run: 3 trials without result.json" in capsys.readouterr().err


def test_an_agent_out_of_time_keeps_its_verdict(lake: Lake) -> None:
    """Harbor grades what is there at the time limit, and so does the report."""
    put(lake, HARBOR_JOB)
    slow = [row for row in lake.rows("attempts", "x") if row["instance_id"] == "answer__slow-2"]
    assert {row["outcome"] for row in slow} == {"out_of_time"}
    assert slow[0]["detail"].startswith("AgentTimeoutError: Agent execution timed out")
    graded = {row["attempt_id"]: row["resolved"] for row in lake.rows("evaluations", "x")}
    assert sorted(graded[row["attempt_id"]] for row in slow) == [False, False, True, True]


ENDS = [
    ("ApiRateLimitError", True, "infrastructure", "infrastructure"),
    ("CancelledError", True, "interrupted", "stopped"),
    ("BadRequestError", True, "infrastructure", "infrastructure"),
    ("ContextWindowExceededError", True, "gave_up", "unresolved"),
    ("NonZeroAgentExitCodeError", True, "gave_up", "unresolved"),
    ("NonZeroAgentExitCodeError", False, "infrastructure", "infrastructure"),
    ("RewardFileNotFoundError", False, "submitted", "infrastructure"),
    (None, False, "submitted", "ungraded"),
]
"""Exception, whether there is a reward, and then the outcome of the attempt and its state."""


def test_how_trials_end(lake: Lake, job: Path) -> None:
    """An exception of the sandbox or a provider is infrastructure, one of the agent its own end."""
    started = []
    for path, (exception, rewarded, *_) in zip(
        sorted(job.glob("*/result.json")), ENDS, strict=True
    ):
        raised = {
            "exception_type": exception,
            "exception_message": "why",
            "exception_traceback": "",
            "occurred_at": "2026-01-01T00:00:00Z",
        }
        content = json.loads(path.read_text()) | {
            "exception_info": raised if exception else None,
            "verifier_result": {"rewards": {"reward": 0.5}} if rewarded else None,
        }
        path.write_text(json.dumps(content))
        started.append(content["started_at"][:23])
    put(lake, job)
    states = {cell.attempt_id: cell.state for cell in report_files.read(lake, "x").cells}
    found = {
        row["started_at"].isoformat()[:23]: (row["outcome"], states[row["attempt_id"]])
        for row in lake.rows("attempts", "x")
    }
    assert [found[at] for at in started] == [(outcome, state) for *_, outcome, state in ENDS]


def new_job(job: Path, name: str, settings: dict[str, Any]) -> Path:
    """Return a copy of the trials of one model as another job."""
    folder = Path(shutil.copytree(job, job.parent / name))
    for trial in folder.glob("*/result.json"):
        content = json.loads(trial.read_text())
        content["config"]["agent"]["kwargs"] = settings
        if content["agent_info"]["model_info"]["name"] == "acme/bad-model":
            shutil.rmtree(trial.parent)
        else:
            trial.write_text(json.dumps(content | {"id": f"{name}-{content['id']}"}))
    return folder


def test_jobs_of_one_agent_and_model_are_arms_with_their_names(lake: Lake, job: Path) -> None:
    """Two jobs are compared, whatever their difference is, and so are two settings in one job."""
    plain, careful = new_job(job, "plain", {}), new_job(job, "careful", {"effort": "high"})
    argv = ["import", "harbor", str(plain), str(careful), "--name", "x", "--lake", str(lake.root)]
    done = CliRunner().invoke(app, [*argv, "--primary", "plain:careful"])
    assert done.exit_code == 0, done.output
    report = report_files.read(lake, "x")
    assert [(arm.name, arm.planned, arm.resolved) for arm in report.arms] == [
        ("careful", 4, 4),
        ("plain", 4, 4),
    ]
    assert [(pair.baseline, pair.role) for pair in report.comparisons] == [("plain", "primary")]
    path = min(plain.glob("*/result.json"))
    content = json.loads(path.read_text())
    content["config"]["agent"]["kwargs"] = {"effort": "low"}
    path.write_text(json.dumps(content))
    arms = filing.file(harbor.read([plain], None), "y", None, str(lake.root))
    assert [(arm.label, arm.found) for arm in arms] == [
        ("plain settings 1", 1),
        ("plain settings 2", 3),
    ]
    with pytest.raises(UsageError, match="are the same attempt: give one of them"):
        harbor.read([plain, shutil.copytree(plain, job.parent / "copy")], None)


def test_a_trial_without_usage_has_unknown_costs(lake: Lake, job: Path) -> None:
    """Neither tokens nor cost are 0 where Harbor knows nothing."""
    change(job, agent_result=None)
    shutil.rmtree(min(job.glob("*/result.json")).parent / "agent")
    put(lake, job)
    row = first(lake, job)
    assert row["cost_usd"] is row["input_tokens"] is row["model_calls"] is None


def test_several_rewards_need_a_choice(lake: Lake, job: Path) -> None:
    """--reward chooses, and the line of the refusal names what there is."""
    change(job, verifier_result={"rewards": {"tests": 1, "style": 0.2}})
    with pytest.raises(UsageError, match="has the rewards style, tests: choose one with --reward"):
        put(lake, job)
    change(job, verifier_result={"rewards": {"reward": 85}})
    with pytest.raises(
        UsageError, match="has the reward 85 in 'reward', but a resolved task gets 1"
    ):
        put(lake, job)
    for trial in job.glob("*/result.json"):
        content = json.loads(trial.read_text()) | {"verifier_result": {"rewards": {"tests": 1}}}
        trial.write_text(json.dumps(content))
    assert [arm.resolved for arm in put(lake, job, "tests")] == [4, 4]


def test_agents_without_a_model_are_controls(lake: Lake, job: Path) -> None:
    """Harbor's oracle is imported as `gold`: it costs nothing."""
    for trial in job.glob("*/result.json"):
        content = json.loads(trial.read_text())
        if content["agent_info"]["model_info"]["name"] == "acme/good-model":
            content["agent_info"] = {"name": "oracle", "version": "1.0", "model_info": None}
            shutil.rmtree(trial.parent / "agent")
        trial.write_text(json.dumps(content))
    put(lake, job)
    gold = [row for row in lake.rows("attempts", "x") if row["agent"] == "gold"]
    assert [(row["model_calls"], row["cost_usd"]) for row in gold] == [(0, 0.0)] * 4


def test_bad_folders_are_one_line(lake: Lake, job: Path, tmp_path: Path) -> None:
    """Exit code 2, the file and what is wrong with it, and nothing is written."""
    change(job, agent_info={"version": "1"})
    (tmp_path / "empty").mkdir()
    for folder, problem in (
        (job, "result.json: not the result of a Harbor trial (agent_info.name: Field required)"),
        (tmp_path / "empty", "empty contains no finished trial of Harbor"),
        (tmp_path / "none", "is not a folder"),
    ):
        argv = ["import", "harbor", str(folder), "--name", "x", "--lake", str(lake.root)]
        done = CliRunner().invoke(app, argv)
        assert done.exit_code == 2
        [line] = done.stderr.strip().split("\n")
        assert problem in line
    assert not lake.root.exists()


def test_a_broken_trajectory_costs_only_its_calls(
    lake: Lake, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trial is imported with its verdict and totals, and a line says what is missing."""
    (min(job.glob("*/result.json")).parent / "agent" / "trajectory.json").write_text("{")
    assert sum(arm.found for arm in put(lake, job)) == 8
    assert "the trial is imported without its calls" in capsys.readouterr().err
    row = first(lake, job)
    assert row["model_calls"] is None
    assert row["cost_usd"] > 0
