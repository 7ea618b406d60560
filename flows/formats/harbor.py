"""Job folders of Harbor: rewards, costs, tokens, and the trajectories of the agents."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from atif import Step
from pydantic import AfterValidator, AllowInfNan, BaseModel, Field, ValidationError

from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.formats import atif, attempts, imported_arms, lake_rows, step_rows
from flows.formats.attempts import (
    Amount,
    Count,
    ExchangedAttempt,
    ReadFiles,
    first_problem,
    read_content,
)
from flows.storage.lake import Row

CONTROLS = {"oracle": "gold", "nop": "null"}
"""Harbor's agents that call no model, and the arms of ours that do the same."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OUT_OF_TIME = frozenset({"AgentTimeoutError"})
_GAVE_UP = _names(
    """
    AgentSafetyRefusalError ContentPolicyViolationError ContextLengthExceededError
    ContextWindowExceededError OutputLengthExceededError OutputTokenExceededError
    """
)
_OF_VERIFIER = _names(
    """
    RewardFileEmptyError RewardFileNotFoundError VerifierOutputParseError VerifierTimeoutError
    """
)
_INFRASTRUCTURE = _names(
    """
    APIConnectionError APIError AddTestsDirError AgentAuthenticationError
    AgentSetupTimeoutError ApiConnectionClosedError ApiError ApiInternalServerError
    ApiOverloadedError ApiRateLimitError ApiResponseStalledError ApiUsageLimitError
    AuthenticationError DownloadVerifierDirError EnvironmentStartTimeoutError HealthcheckError
    InternalServerError MemoryLimitExceededError ModelNotFoundError NetworkConnectionError
    NotFoundError PermissionDeniedError RateLimitError SandboxBuildFailedError
    SandboxLikelyOutOfMemoryError ServiceUnavailableError Timeout UnknownApiError
    """
)
"""Failures of the sandbox, of Harbor or of a provider. Harbor counts no reward after them."""


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_Moment = Annotated[datetime, AfterValidator(_aware)]


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


class _Trial(_Phase):
    """The fields of a trial's `result.json` that are read. Releases of Harbor add others."""

    id: str
    task_name: str = Field(min_length=1)
    trial_name: str
    source: str | None = None
    agent_info: _Agent
    started_at: _Moment | None = None
    step_results: list[_Step] | None = None

    @property
    def phases(self) -> Sequence[_Phase]:
        """The steps of the trial, or the trial if it has none."""
        return self.step_results or [self]

    @property
    def failure(self) -> _Failure | None:
        """The first exception."""
        raised = (each.exception_info for each in (self, *(self.step_results or ())))
        return next(filter(None, raised), None)


def read(folders: Sequence[Path], reward: str | None) -> ReadFiles:
    """Read the trials of jobs. Their arms are an agent with its model.

    `reward` names the reward that decides, where a verifier gives several. 1 is resolved, and any
    smaller reward is not.

    Raises:
        UsageError: a folder or a file cannot be used.
    """
    trials = {path: trial for folder in folders for path, trial in _trials(folder)}
    names = _instances(trial.task_name for trial in trials.values())
    found = [_attempt(path, trial, names, reward) for path, trial in trials.items()]
    datasets = dict.fromkeys(trial.source for trial in trials.values() if trial.source)
    partial = sum(0 < (_reward(trial, reward) or 0) < 1 for trial in trials.values())
    if partial:
        imported_arms.tell(f"{partial} rewards are between 0 and 1, and count as not resolved.")
    shown = datasets or dict.fromkeys(folder.resolve().name for folder in folders)
    return ReadFiles(found, ", ".join(shown))


def _trials(folder: Path) -> Iterator[tuple[Path, _Trial]]:
    """Yield the trials of a job with their folders. The folder may hold several jobs."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: name a job folder of Harbor")
    without, found = 0, False
    for config in sorted(folder.rglob("config.json")):
        result = config.with_name("result.json")
        if b'"trial_name"' not in read_content(config):
            continue  # of the job
        if result.is_file():
            found = True
            yield result.parent, _parse(result, read_content(result))
        else:
            without += 1
    if not found:
        raise UsageError(f"there is no finished trial of Harbor in {folder}")
    if without:
        imported_arms.tell(
            f"{folder}: {without} trials have no result.json, and count as never run."
        )


def _parse(path: Path, content: bytes) -> _Trial:
    try:
        return _Trial.model_validate_json(content)
    except ValidationError as error:
        raise UsageError(f"{path}: no result of a Harbor trial ({first_problem(error)})") from None


def _instances(tasks: Iterable[str]) -> dict[str, str]:
    """Return the instance of each task: its name without the organization, if that is unique."""
    whole = set(tasks)
    short = [task.rpartition("/")[2] for task in whole]
    return {
        task: last if last and short.count(last) == 1 else task
        for task, last in zip(whole, short, strict=True)
    }


def _attempt(
    folder: Path, trial: _Trial, instances: dict[str, str], reward: str | None
) -> ExchangedAttempt:
    failure, info = trial.failure, trial.agent_info
    kind = failure.exception_type if failure else ""
    outcome, verdict = _ending(kind, _reward(trial, reward))
    model = info.model_info
    name = "/".join(filter(None, [model.provider, model.name])) if model else ""
    name = "none" if info.name in CONTROLS else name or "unknown"
    lines = _lines(folder, trial)
    source, instance_id = str(folder / "result.json"), instances[trial.task_name]
    facts = attempts.describe(
        source,
        _usage(trial, step_rows.calls(lines, name)),
        agent=CONTROLS.get(info.name, info.name),
        model=name,
        instance_id=instance_id,
        repo=lake_rows.repository(instance_id),
        outcome=outcome,
        detail=f"{kind}: {failure.exception_message}" if failure else f"trial {trial.trial_name}",
        started_at=trial.started_at,
        duration_s=_duration(trial),
        verdict=verdict,
        reason=kind if verdict == "infrastructure" else "",
    )
    version = "" if info.version == "unknown" else info.version
    order = (trial.started_at.isoformat() if trial.started_at else "", trial.trial_name)
    return ExchangedAttempt(facts, source, trial.id, lines, version, order)


def _ending(kind: str, value: float | None) -> tuple[str, EvaluationOutcome | None]:
    """Return the outcome and the verdict of a trial with this exception and reward."""
    verdict: EvaluationOutcome | None = None
    if value is not None:
        verdict = "resolved" if value >= 1 else "unresolved"
    if kind == "CancelledError":
        return "interrupted", None
    if kind in _INFRASTRUCTURE:
        return "infrastructure", None
    if kind in _OF_VERIFIER:
        return "submitted", verdict or "infrastructure"
    if kind in _OUT_OF_TIME:
        return "out_of_time", verdict
    if kind in _GAVE_UP or (kind and verdict):
        return "gave_up", verdict
    return ("infrastructure", None) if kind else ("submitted", verdict)


def _reward(trial: _Trial, name: str | None) -> float | None:
    """Return the reward that decides; None if there is none.

    Raises:
        UsageError: there are several, and none of them is chosen, or it is more than 1.
    """
    rewards = (trial.verifier_result and trial.verifier_result.rewards) or {}
    if not rewards:
        return None
    chosen = name or ("reward" if "reward" in rewards else next(iter(rewards)))
    if chosen not in rewards or (name is None and chosen != "reward" and len(rewards) > 1):
        known = ", ".join(sorted(rewards))
        raise UsageError(f"{trial.trial_name} has the rewards {known}: choose one with --reward")
    if rewards[chosen] > 1:
        raise UsageError(
            f"{trial.trial_name} has the reward {rewards[chosen]:g} in {chosen!r}, and 1 is the "
            "most that a resolved task gets: choose another with --reward"
        )
    return rewards[chosen]


def _duration(trial: _Trial) -> float | None:
    """Return how long the agent worked; None if that is unknown."""
    total = 0.0
    for phase in trial.phases:
        timing = phase.agent_execution
        if timing is None or timing.started_at is None or timing.finished_at is None:
            return None
        total += (timing.finished_at - timing.started_at).total_seconds()
    return total


def _usage(trial: _Trial, calls: Sequence[tuple[Row, int]]) -> Row:
    """Return the totals of a trial. A figure is unknown if it is unknown for one of its steps."""
    if trial.agent_info.name in CONTROLS:
        return dict.fromkeys(("model_calls", "unpriced_calls", *attempts.TOKENS, "cost_usd"), 0)
    contexts = [phase.agent_result or _Context() for phase in trial.phases]
    names = {"input": "input", "cache_read": "cache", "output": "output"}
    tokens = {
        f"{name}_tokens": attempts.total(getattr(each, f"n_{field}_tokens") for each in contexts)
        for name, field in names.items()
    }
    costs = [each.cost_usd for each in contexts]
    cost_usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    if calls:
        return attempts.sum_usage(calls, tokens, cost_usd)
    return {**tokens, "cost_usd": cost_usd or None}


def _lines(folder: Path, trial: _Trial) -> dict[str, Sequence[Step]]:
    """Return the steps that the trajectories of a trial have. A broken one is passed over."""
    named = {"": folder / "agent"} | {
        step.step_name: folder / "steps" / step.step_name / "agent"
        for step in trial.step_results or ()
    }
    lines: dict[str, Sequence[Step]] = {}
    for scope, agent in named.items():
        path = agent / "trajectory.json"
        if not path.is_file():
            continue
        try:
            [recording] = atif.find([path])
            found = atif.read_recording(recording).lines
        except UsageError as error:
            imported_arms.tell(f"{error}; the trial is imported without its calls.")
            continue
        for inner, own in found.items():
            lines[step_rows.inside(scope, inner) if inner else scope] = own
    return lines
