"""Job folders of Harbor: rewards, costs, tokens, and the trajectories of the agents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eval.digests import canonical_digest
from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.formats import attempts, call_counts, lake_rows
from flows.formats.attempts import (
    ExchangedAttempt,
    ReadFiles,
    read_content,
)
from flows.formats.folders import is_inside, refuse_link
from flows.formats.harbor_files import (
    OF_VERIFIER,
    AgentUsage,
    Timing,
    Trial,
    TrialFailure,
    read_trials,
    shorten,
)
from flows.storage.lake import Row
from reports.format import plural

if TYPE_CHECKING:
    from atif import Step  # takes a tenth of a second

CONTROLS = {"oracle": "gold", "nop": "null"}
"""Harbor's agents that call no model, and the arms of ours that do the same."""


_GAVE_UP = """
    AgentSafetyRefusalError ContentPolicyViolationError ContextLengthExceededError
    ContextWindowExceededError OutputLengthExceededError OutputTokenExceededError
"""


def read(folders: Sequence[Path], reward: str | None, *, with_steps: bool = True) -> ReadFiles:
    """Read the trials of jobs. Their arms are an agent with its model, or a job.

    `reward` names the reward that decides, where a verifier gives several. 1 is resolved, and any
    smaller reward is not. Trajectories are the slow part of a job: without `with_steps`, only
    their calls are counted.

    Raises:
        UsageError: a folder or a file cannot be used.
    """
    trials: dict[Path, Trial] = {}
    planned: set[str] = set()
    for folder in folders:
        of_folder, names_of_tasks = read_trials(folder)
        trials |= of_folder
        planned |= names_of_tasks
    tasks = {trial.task_name for trial in trials.values()}
    # An instance is the name of its task without the organization, if that is unique.
    short = Counter(map(shorten, tasks))
    instances = {task: shorten(task) if short[shorten(task)] == 1 else task for task in tasks}
    jobs = _name_jobs(trials)
    read_attempts = [
        _read_attempt(
            path,
            trial,
            instances[trial.task_name],
            jobs[path],
            reward,
            with_steps=with_steps,
        )
        for path, trial in trials.items()
    ]
    datasets = dict.fromkeys(trial.source for trial in trials.values() if trial.source)
    partial = sum(0 < (_read_reward(trial, reward) or 0) < 1 for trial in trials.values())
    if partial:
        warn(f"Counted as not resolved: {plural(partial, 'reward')} between 0 and 1.")
    names = datasets or dict.fromkeys(folder.resolve().name for folder in folders)
    return ReadFiles(read_attempts, ", ".join(names), sorted(planned - short.keys()))


def _name_jobs(trials: Mapping[Path, Trial]) -> dict[Path, str]:
    """Return the name of the job of each trial: the shortest end of its path that is its own.

    Several settings of one agent with one model in a job are numbered, and count as jobs.
    """
    sources: dict[str, Path] = {}
    for path, trial in trials.items():
        if (other := sources.setdefault(trial.id, path)) != path:
            raise UsageError(f"{other} and {path} are the same attempt: give one of them")
    agents = {
        path: (path.parent, trial.agent_info.model_dump_json()) for path, trial in trials.items()
    }
    digests = {path: canonical_digest(trial.config.agent) for path, trial in trials.items()}
    settings = defaultdict[tuple[Path, str], set[str]](set)
    for path, agent in agents.items():
        settings[agent].add(digests[path])
    folders = {path.parent for path in trials}
    tails = {folder: ["/".join(folder.parts[-n:]) for n in range(1, 9)] for folder in folders}
    ends = Counter(tail for of_folder in tails.values() for tail in of_folder)
    jobs = {
        folder: next((tail for tail in tails[folder] if ends[tail] == 1), str(folder))
        for folder in folders
    }
    names = {}
    for path, agent in agents.items():
        name, numbered = jobs[path.parent], sorted(settings[agent])
        number = numbered.index(digests[path]) + 1
        names[path] = f"{name} settings {number}" if len(numbered) > 1 else name
    return names


def _read_attempt(
    folder: Path,
    trial: Trial,
    instance_id: str,
    job: str,
    reward: str | None,
    *,
    with_steps: bool,
) -> ExchangedAttempt:
    lines = _read_lines(folder, trial) if with_steps else {}
    failure, info = trial.failure, trial.agent_info
    kind = failure.exception_type if failure else ""
    value = _read_reward(trial, reward)
    outcome, verdict = _read_ending(failure, value)
    model = info.model_info
    name = "/".join(filter(None, [model.provider, model.name])) if model else ""
    name = "none" if info.name in CONTROLS else name or "unknown"
    source = str(folder / "result.json")
    executions = [phase.agent_execution or Timing() for phase in trial.phases]
    seconds = [
        (time.finished_at - time.started_at).total_seconds()
        for time in executions
        if time.started_at and time.finished_at
    ]
    facts = attempts.describe(
        source,
        _read_usage(folder, trial, lines, name),
        agent=CONTROLS.get(info.name, info.name),
        model=name,
        instance_id=instance_id,
        repo=lake_rows.repository(instance_id),
        outcome=outcome,
        detail=f"{kind}: {failure.exception_message}" if failure else f"trial {trial.trial_name}",
        started_at=trial.started_at,
        duration_s=sum(seconds) if len(seconds) == len(executions) else None,
        verdict=verdict,
        reason=kind if verdict == "infrastructure" else "",
        reward=value if verdict in ("resolved", "unresolved") else None,
    )
    version = "" if info.version == "unknown" else info.version
    order = (trial.started_at.isoformat() if trial.started_at else "", trial.trial_name)
    return ExchangedAttempt(
        facts, source, trial.id, lines, version, order, job=job, settings=trial.config.settings
    )


def _read_ending(
    failure: TrialFailure | None, value: float | None
) -> tuple[str, EvaluationOutcome | None]:
    """Return the outcome and the verdict of a trial with this exception and reward."""
    verdict: EvaluationOutcome | None = None
    if value is not None:
        verdict = "resolved" if value >= 1 else "unresolved"
    if failure is None:
        return "submitted", verdict
    kind = failure.exception_type
    if kind == "CancelledError":
        return "interrupted", None
    if kind in OF_VERIFIER.split():
        return "submitted", verdict if failure.is_of_agent and verdict else "infrastructure"
    if not failure.is_of_agent:
        return "infrastructure", None
    if kind == "AgentTimeoutError":
        return "out_of_time", verdict
    if kind in _GAVE_UP.split() or verdict:
        return "gave_up", verdict
    return "infrastructure", None


def _read_reward(trial: Trial, name: str | None) -> float | None:
    """Return the reward that decides; None if there is none."""
    rewards = (trial.verifier_result and trial.verifier_result.rewards) or {}
    if not rewards:
        return None
    chosen = name or ("reward" if "reward" in rewards else next(iter(rewards)))
    if chosen not in rewards or (name is None and chosen != "reward" and len(rewards) > 1):
        names = ", ".join(sorted(rewards))
        raise UsageError(f"{trial.trial_name} has the rewards {names}: choose one with --reward")
    value = rewards[chosen]
    if value is not None and value > 1:
        raise UsageError(
            f"{trial.trial_name} has the reward {value:g} in {chosen!r}, but a resolved "
            "task gets 1: choose another with --reward"
        )
    return value


def _read_usage(folder: Path, trial: Trial, lines: Mapping[str, Sequence[Step]], model: str) -> Row:
    """Return the totals of a trial. A figure is unknown if it is unknown for one of its steps."""
    if trial.agent_info.name in CONTROLS:
        return dict.fromkeys(("model_calls", "unpriced_calls", *attempts.TOKENS, "cost_usd"), 0)
    contexts = [phase.agent_result or AgentUsage() for phase in trial.phases]
    names = {"input": "input", "cache_read": "cache", "output": "output"}
    tokens = {
        f"{name}_tokens": attempts.total(getattr(part, f"n_{field}_tokens") for part in contexts)
        for name, field in names.items()
    }
    costs = [context.cost_usd for context in contexts]
    cost_usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    if lines:
        from flows.formats import step_rows

        if calls := step_rows.calls(lines, model):
            return attempts.sum_usage(calls, tokens, cost_usd)
    return {"model_calls": _count_calls(folder, trial), **tokens, "cost_usd": cost_usd or None}


def _count_calls(folder: Path, trial: Trial) -> int | None:
    """Return the number of calls in the trajectories of a trial; None if it is unknown."""
    counts = [
        call_counts.count_in(read_content(path)) if is_inside(path, folder) else None
        for path in _find_trajectories(folder, trial).values()
    ]
    return attempts.total(counts) or None


def _find_trajectories(folder: Path, trial: Trial) -> dict[str, Path]:
    """Return the trajectories that a trial has, by the name of its step; empty for the trial."""
    folders = {"": folder / "agent"} | {
        step.step_name: folder / "steps" / step.step_name / "agent"
        for step in trial.step_results or ()
    }
    paths = {scope: agent / "trajectory.json" for scope, agent in folders.items()}
    return {scope: path for scope, path in paths.items() if path.is_file()}


def _read_lines(folder: Path, trial: Trial) -> dict[str, Sequence[Step]]:
    """Return the steps that the trajectories of a trial have. A broken one is passed over."""
    from flows.formats import atif, step_rows

    lines: dict[str, Sequence[Step]] = {}
    for scope, path in _find_trajectories(folder, trial).items():
        try:
            refuse_link(path, folder)
            [recording] = atif.find([path])
            read_lines = atif.read_recording(recording).lines
        except UsageError as error:
            warn(f"{error}; the trial is imported without its calls.")
            continue
        for inner, steps in read_lines.items():
            lines[step_rows.inside(scope, inner) if inner else scope] = steps
    return lines
