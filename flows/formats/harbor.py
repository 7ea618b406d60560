"""Job folders of Harbor: rewards, costs, tokens, and the trajectories of the agents."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from atif import Step
from pydantic import AfterValidator, AllowInfNan, BaseModel, Field, ValidationError

from eval.digests import canonical_digest
from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.formats import atif, attempts, lake_rows, step_rows
from flows.formats.attempts import (
    Amount,
    Count,
    ExchangedAttempt,
    ReadFiles,
    first_problem,
    read_content,
)
from flows.storage.lake import Row
from reports.format import plural

CONTROLS = {"oracle": "gold", "nop": "null"}
"""Harbor's agents that call no model, and the arms of ours that do the same."""


_GAVE_UP = """
    AgentSafetyRefusalError ContentPolicyViolationError ContextLengthExceededError
    ContextWindowExceededError OutputLengthExceededError OutputTokenExceededError
"""
_OF_VERIFIER = """
    RewardFileEmptyError RewardFileNotFoundError VerifierOutputParseError VerifierTimeoutError
"""
_INFRASTRUCTURE = """
    APIConnectionError APIError AddTestsDirError AgentAuthenticationError AgentSetupTimeoutError
    ApiConnectionClosedError ApiError ApiInternalServerError ApiOverloadedError
    ApiRateLimitError ApiResponseStalledError ApiUsageLimitError AuthenticationError
    DownloadVerifierDirError EnvironmentStartTimeoutError HealthcheckError InternalServerError
    MemoryLimitExceededError ModelNotFoundError NetworkConnectionError NotFoundError
    PermissionDeniedError RateLimitError SandboxBuildFailedError SandboxLikelyOutOfMemoryError
    ServiceUnavailableError Timeout UnknownApiError
"""
"""Failures of the sandbox, of Harbor or of a provider, after which Harbor counts no reward."""


_Moment = Annotated[
    datetime, AfterValidator(lambda time: time if time.tzinfo else time.replace(tzinfo=UTC))
]


class _Timing(BaseModel):
    started_at: _Moment | None = None
    finished_at: _Moment | None = None


class _Model(BaseModel):
    name: str
    provider: str | None = None


class _Agent(BaseModel):
    name: str = Field(min_length=1)
    version: str
    model_info: _Model | None = None


class _Context(BaseModel):
    n_input_tokens: Count | None = None
    n_cache_tokens: Count | None = None
    n_output_tokens: Count | None = None
    cost_usd: Amount | None = None


class _Verified(BaseModel):
    rewards: dict[str, Annotated[float, AllowInfNan(False)]] | None = None


class _Failure(BaseModel):
    exception_type: str
    exception_message: str


class _Phase(BaseModel):
    """A trial, or one step of a trial with several."""

    agent_result: _Context | None = None
    verifier_result: _Verified | None = None
    exception_info: _Failure | None = None
    agent_execution: _Timing | None = None


class _Step(_Phase):
    step_name: str


class _Config(BaseModel):
    agent: dict[str, Any] = {}


class _Trial(_Phase):
    """The fields of a trial's `result.json` that are read. Releases of Harbor add others."""

    id: str
    task_name: str = Field(min_length=1)
    trial_name: str
    source: str | None = None
    agent_info: _Agent
    config: _Config = _Config()
    started_at: _Moment | None = None
    step_results: list[_Step] | None = None

    @property
    def phases(self) -> Sequence[_Phase]:
        """The steps of the trial, or the trial if it has none."""
        return self.step_results or [self]

    @property
    def failure(self) -> _Failure | None:
        """The first exception."""
        failures = (phase.exception_info for phase in (self, *(self.step_results or ())))
        return next(filter(None, failures), None)


def read(folders: Sequence[Path], reward: str | None) -> ReadFiles:
    """Read the trials of jobs. Their arms are an agent with its model, or a job.

    `reward` names the reward that decides, where a verifier gives several. 1 is resolved, and any
    smaller reward is not.

    Raises:
        UsageError: a folder or a file cannot be used.
    """
    trials = {path: trial for folder in folders for path, trial in _read_trials(folder)}
    tasks = {trial.task_name for trial in trials.values()}
    # An instance is the name of its task without the organization, if that is unique.
    short = Counter(task.rpartition("/")[2] for task in tasks)
    instances = {}
    for task in tasks:
        name = task.rpartition("/")[2]
        instances[task] = name if name and short[name] == 1 else task
    jobs = _name_jobs(trials)
    read_attempts = [
        _read_attempt(path, trial, instances[trial.task_name], jobs[path], reward)
        for path, trial in trials.items()
    ]
    datasets = dict.fromkeys(trial.source for trial in trials.values() if trial.source)
    partial = sum(0 < (_read_reward(trial, reward) or 0) < 1 for trial in trials.values())
    if partial:
        warn(f"Counted as not resolved: {plural(partial, 'reward')} between 0 and 1.")
    names = datasets or dict.fromkeys(folder.resolve().name for folder in folders)
    return ReadFiles(read_attempts, ", ".join(names))


def _read_trials(folder: Path) -> Iterator[tuple[Path, _Trial]]:
    """Yield the trials of a job with their folders. The folder may hold several jobs."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name a job folder of Harbor")
    finished = unfinished = 0
    for config in sorted(folder.rglob("config.json")):
        result = config.with_name("result.json")
        if b'"trial_name"' not in read_content(config):
            continue  # of the job
        if not result.is_file():
            unfinished += 1
            continue
        finished += 1
        try:
            trial = _Trial.model_validate_json(read_content(result))
        except ValidationError as error:
            problem = first_problem(error)
            raise UsageError(f"{result}: not the result of a Harbor trial ({problem})") from None
        yield result.parent, trial
    if not finished:
        raise UsageError(f"{folder} contains no finished trial of Harbor")
    if unfinished:
        trials = plural(unfinished, "trial")
        warn(f"{folder}: counted as never run: {trials} without result.json.")


def _name_jobs(trials: Mapping[Path, _Trial]) -> dict[Path, str]:
    """Return the name of the job of each trial: the shortest end of its path that is its own.

    Several settings of one agent with one model in a job are numbered, and count as jobs.

    Raises:
        UsageError: a trial is there twice.
    """
    sources: dict[str, Path] = {}
    settings = defaultdict[tuple[Path, str], dict[str, int]](dict)
    for path, trial in trials.items():
        if (other := sources.setdefault(trial.id, path)) != path:
            raise UsageError(f"{other} and {path} are the same attempt: give one of them")
        settings[path.parent, trial.agent_info.model_dump_json()].setdefault(
            canonical_digest(trial.config.agent), 0
        )
    for digests in settings.values():
        digests.update({digest: number for number, digest in enumerate(sorted(digests), 1)})
    folders = {path.parent for path in trials}
    ends = Counter("/".join(folder.parts[-n:]) for folder in folders for n in range(1, 9))
    names = {}
    for path, trial in trials.items():
        tails = ("/".join(path.parent.parts[-n:]) for n in range(1, 9))
        name = next((tail for tail in tails if ends[tail] == 1), str(path.parent))
        digests = settings[path.parent, trial.agent_info.model_dump_json()]
        number = digests[canonical_digest(trial.config.agent)]
        names[path] = f"{name} settings {number}" if len(digests) > 1 else name
    return names


def _read_attempt(
    folder: Path, trial: _Trial, instance_id: str, job: str, reward: str | None
) -> ExchangedAttempt:
    failure, info = trial.failure, trial.agent_info
    kind = failure.exception_type if failure else ""
    outcome, verdict = _read_ending(kind, _read_reward(trial, reward))
    model = info.model_info
    name = "/".join(filter(None, [model.provider, model.name])) if model else ""
    name = "none" if info.name in CONTROLS else name or "unknown"
    lines, source = _read_lines(folder, trial), str(folder / "result.json")
    executions = [phase.agent_execution or _Timing() for phase in trial.phases]
    seconds = [
        (time.finished_at - time.started_at).total_seconds()
        for time in executions
        if time.started_at and time.finished_at
    ]
    facts = attempts.describe(
        source,
        _read_usage(trial, step_rows.calls(lines, name)),
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
    )
    version = "" if info.version == "unknown" else info.version
    order = (trial.started_at.isoformat() if trial.started_at else "", trial.trial_name)
    return ExchangedAttempt(facts, source, trial.id, lines, version, order, job=job)


def _read_ending(kind: str, value: float | None) -> tuple[str, EvaluationOutcome | None]:
    """Return the outcome and the verdict of a trial with this exception and reward."""
    verdict: EvaluationOutcome | None = None
    if value is not None:
        verdict = "resolved" if value >= 1 else "unresolved"
    if kind == "CancelledError":
        return "interrupted", None
    if kind in _INFRASTRUCTURE.split():
        return "infrastructure", None
    if kind in _OF_VERIFIER.split():
        return "submitted", verdict or "infrastructure"
    if kind == "AgentTimeoutError":
        return "out_of_time", verdict
    if kind in _GAVE_UP.split() or (kind and verdict):
        return "gave_up", verdict
    return ("infrastructure", None) if kind else ("submitted", verdict)


def _read_reward(trial: _Trial, name: str | None) -> float | None:
    """Return the reward that decides; None if there is none.

    Raises:
        UsageError: there are several, and none of them is chosen, or it is more than 1.
    """
    rewards = (trial.verifier_result and trial.verifier_result.rewards) or {}
    if not rewards:
        return None
    chosen = name or ("reward" if "reward" in rewards else next(iter(rewards)))
    if chosen not in rewards or (name is None and chosen != "reward" and len(rewards) > 1):
        names = ", ".join(sorted(rewards))
        raise UsageError(f"{trial.trial_name} has the rewards {names}: choose one with --reward")
    if rewards[chosen] > 1:
        raise UsageError(
            f"{trial.trial_name} has the reward {rewards[chosen]:g} in {chosen!r}, but a resolved "
            "task gets 1: choose another with --reward"
        )
    return rewards[chosen]


def _read_usage(trial: _Trial, calls: Sequence[tuple[Row, int]]) -> Row:
    """Return the totals of a trial. A figure is unknown if it is unknown for one of its steps."""
    if trial.agent_info.name in CONTROLS:
        return dict.fromkeys(("model_calls", "unpriced_calls", *attempts.TOKENS, "cost_usd"), 0)
    contexts = [phase.agent_result or _Context() for phase in trial.phases]
    names = {"input": "input", "cache_read": "cache", "output": "output"}
    tokens = {
        f"{name}_tokens": attempts.total(getattr(part, f"n_{field}_tokens") for part in contexts)
        for name, field in names.items()
    }
    costs = [context.cost_usd for context in contexts]
    cost_usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    if calls:
        return attempts.sum_usage(calls, tokens, cost_usd)
    return {**tokens, "cost_usd": cost_usd or None}


def _read_lines(folder: Path, trial: _Trial) -> dict[str, Sequence[Step]]:
    """Return the steps that the trajectories of a trial have. A broken one is passed over."""
    folders = {"": folder / "agent"} | {
        step.step_name: folder / "steps" / step.step_name / "agent"
        for step in trial.step_results or ()
    }
    lines: dict[str, Sequence[Step]] = {}
    for scope, agent in folders.items():
        path = agent / "trajectory.json"
        if not path.is_file():
            continue
        try:
            [recording] = atif.find([path])
            read_lines = atif.read_recording(recording).lines
        except UsageError as error:
            warn(f"{error}; the trial is imported without its calls.")
            continue
        for inner, steps in read_lines.items():
            lines[step_rows.inside(scope, inner) if inner else scope] = steps
    return lines
