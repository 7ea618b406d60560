"""Attempts as one job folder of Harbor 0.26, which `harbor view` opens."""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flows.formats import atif
from flows.formats.attempts import LOST, ExchangedAttempt
from flows.formats.harbor import CONTROLS
from flows.storage.whole_files import write_whole

_AGENTS = {ours: theirs for theirs, ours in CONTROLS.items()}
_OTHER = re.compile(r"[^\w.-]+")


def write_job(name: str, dataset: str, attempts: Sequence[ExchangedAttempt], folder: Path) -> None:
    """Write a job with a trial for each attempt. The agent of a trial has the name of the arm.

    An attempt without a reward has 1 if it is resolved, and 0 otherwise. Times of phases other than
    the agent's are unknown, and so they are left out.
    """
    job_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {[a.digest for a in attempts]}"))
    trials = [_create_trial(attempt, dataset, job_id, folder) for attempt in attempts]
    for attempt, trial in zip(attempts, trials, strict=True):
        place = folder / trial["trial_name"]
        _write(place / "config.json", trial["config"])
        _write(place / "result.json", trial)
        if attempt.lines:
            (place / "agent").mkdir(parents=True, exist_ok=True)
            atif.write(attempt, place / "agent" / "trajectory.json")
    agents = {trial["agent_info"]["name"]: trial["config"]["agent"] for trial in trials}
    _write(
        folder / "config.json",
        {
            "job_name": folder.name,
            "jobs_dir": "..",
            "agents": list(agents.values()),
            "datasets": [{"path": dataset}],
        },
    )
    _write(folder / "result.json", _create_result(job_id, dataset, trials))


def _create_trial(
    attempt: ExchangedAttempt, dataset: str, job_id: str, folder: Path
) -> dict[str, Any]:
    facts = attempt.facts
    start = facts.started_at or datetime.fromtimestamp(0, UTC)
    end = start + timedelta(seconds=facts.duration_s or 0)
    timing = {"started_at": start.isoformat(), "finished_at": end.isoformat()}
    agent = _AGENTS.get(str(facts.arm), str(facts.arm))
    provider, _, model = str(attempt.model or "").rpartition("/")
    trial = _OTHER.sub("-", f"{facts.instance_id}__{facts.arm}.{facts.repeat or 0}")
    task = {"path": facts.instance_id}
    failure = None
    if facts.outcome in LOST or facts.outcome == "out_of_time":
        is_lost = facts.outcome in LOST
        failure = {
            "exception_type": "InfrastructureError" if is_lost else "AgentTimeoutError",
            "exception_message": f"{facts.outcome}: {facts.detail}",
            "exception_traceback": "",
            "occurred_at": timing["finished_at"],
            "policy": {"has_valid_reward": not is_lost},
        }
    rewards = None
    if facts.verdict not in (None, "infrastructure"):
        reward = float(facts.verdict == "resolved") if facts.reward is None else facts.reward
        rewards = {"rewards": {"reward": reward}}
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{attempt.digest}")),
        "task_name": facts.instance_id,
        "trial_name": trial,
        "trial_uri": f"{job_id}/{trial}",
        "task_id": task,
        "source": dataset,
        "task_checksum": "",
        "config": {
            "task": {**task, "source": dataset},
            "trial_name": trial,
            "trials_dir": folder.name,
            "agent": {"name": agent, "model_name": attempt.model},
            "job_id": job_id,
        },
        "agent_info": {
            "name": agent,
            "version": attempt.version or version("durabench"),
            "model_info": {"name": model, "provider": provider or None} if model else None,
        },
        "agent_result": {
            "n_input_tokens": facts.input_tokens,
            "n_cache_tokens": facts.cache_read_tokens,
            "n_output_tokens": facts.output_tokens,
            "cost_usd": facts.cost_usd,
        },
        "verifier_result": rewards,
        "exception_info": failure,
        **timing,
        "agent_execution": timing,
    }


def _create_result(
    job_id: str, dataset: str, trials: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    evals: dict[str, Any] = {}
    for agent in dict.fromkeys(trial["agent_info"]["name"] for trial in trials):
        own = [trial for trial in trials if trial["agent_info"]["name"] == agent]
        rewards: dict[str, list[str]] = {}
        failures: dict[str, list[str]] = {}
        for trial in own:
            if trial["verifier_result"]:
                value = str(trial["verifier_result"]["rewards"]["reward"])
                rewards.setdefault(value, []).append(trial["trial_name"])
            if trial["exception_info"]:
                kind = trial["exception_info"]["exception_type"]
                failures.setdefault(kind, []).append(trial["trial_name"])
        mean = sum(float(value) * len(names) for value, names in rewards.items()) / len(own)
        evals[f"{agent}__{dataset}"] = {
            "n_trials": len(own),
            "n_errors": sum(map(len, failures.values())),
            "metrics": [{"reward": mean}],
            "pass_at_k": {},
            "reward_stats": {"reward": rewards},
            "exception_stats": failures,
        }
    errors = sum(counts["n_errors"] for counts in evals.values())
    return {
        "id": job_id,
        "started_at": min(trial["started_at"] for trial in trials),
        "finished_at": max(trial["finished_at"] for trial in trials),
        "n_total_trials": len(trials),
        "stats": {
            "n_completed_trials": len(trials) - errors,
            "n_errored_trials": errors,
            "evals": evals,
        },
    }


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1).encode())
