"""The files of Harbor's jobs: trials, their failures, and the tasks that a job planned."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AllowInfNan, BaseModel, Field, ValidationError

from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.formats.attempts import Amount, Count, first_problem, read_content
from flows.formats.folders import refuse_link, walk
from reports.format import plural

OF_VERIFIER = """
    RegradeError RewardFileEmptyError RewardFileNotFoundError VerifierOutputParseError
    VerifierTimeoutError
"""
INFRASTRUCTURE = """
    APIConnectionError APIError APIResponseValidationError AddTestsDirError AgentAuthenticationError
    AgentSetupTimeoutError ApiConnectionClosedError ApiConnectionError ApiError
    ApiInternalServerError ApiOverloadedError ApiProviderResourceNotFoundError ApiRateLimitError
    ApiResponseStalledError ApiUsageLimitError AuthenticationError BadRequestError
    BudgetExceededError DownloadVerifierDirError DspyImportError EnvironmentStartTimeoutError
    GKEExecStreamClosedError GKEPodNotFoundError HealthcheckError InternalServerError
    MemoryLimitExceededError MissingExtraError ModelNotFoundError NetworkConnectionError
    NotFoundError PermissionDeniedError RateLimitError RuntimeRequestError SSHAccessError
    SandboxBuildFailedError SandboxLikelyOutOfMemoryError ServiceOperationsUnsupportedError
    ServiceUnavailableError Timeout UnknownApiError UnprocessableEntityError
    UnsupportedModelParametersError UnsupportedParamsError VercelScopeError
"""
"""Failures of the sandbox, of Harbor or of a provider, after which Harbor counts no reward. Results
of Harbor 0.26 say of each failure whether the reward counts, which a job may declare."""


_Moment = Annotated[
    datetime, AfterValidator(lambda time: time if time.tzinfo else time.replace(tzinfo=UTC))
]


class Timing(BaseModel):
    started_at: _Moment | None = None
    finished_at: _Moment | None = None


class AgentModel(BaseModel):
    name: str
    provider: str | None = None


class AgentInfo(BaseModel):
    name: str = Field(min_length=1)
    version: str
    model_info: AgentModel | None = None


class AgentUsage(BaseModel):
    n_input_tokens: Count | None = None
    n_cache_tokens: Count | None = None
    n_output_tokens: Count | None = None
    cost_usd: Amount | None = None


class Rewards(BaseModel):
    rewards: dict[str, Annotated[float, AllowInfNan(False)] | None] | None = None
    """Harbor writes NaN as null."""


class _Policy(BaseModel):
    has_valid_reward: bool


class TrialFailure(BaseModel):
    exception_type: str
    exception_message: str
    policy: _Policy | None = None

    @property
    def is_of_agent(self) -> bool:
        """True if a reward counts in spite of the failure."""
        if self.policy:
            return self.policy.has_valid_reward
        others = f"CancelledError {OF_VERIFIER} {INFRASTRUCTURE}"
        return self.exception_type not in others.split()


class Phase(BaseModel):
    """A trial, or one step of a trial with several."""

    agent_result: AgentUsage | None = None
    verifier_result: Rewards | None = None
    exception_info: TrialFailure | None = None
    agent_execution: Timing | None = None


class TrialStep(Phase):
    step_name: str


class TrialConfig(BaseModel):
    agent: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    timeout_multiplier: float | None = None
    agent_timeout_multiplier: float | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The conditions that decide results beside the agent; empty if the file states none."""
        if not self.environment:
            return {}
        values = {
            "the sandbox": self.environment.get("type"),
            "the number of processors": self.environment.get("override_cpus"),
            "the memory in MB": self.environment.get("override_memory_mb"),
            "the agent's time limit in seconds": self.agent.get("override_timeout_sec"),
            "the factor of time limits": self.timeout_multiplier,
            "the factor of the agent's time limit": self.agent_timeout_multiplier,
        }
        return {name: str(value or "as in the task") for name, value in values.items()}


class Trial(Phase):
    """The fields of a trial's `result.json` that are read. Releases of Harbor add others."""

    id: str
    task_name: str = Field(min_length=1)
    trial_name: str
    source: str | None = None
    agent_info: AgentInfo
    config: TrialConfig = TrialConfig()
    started_at: _Moment | None = None
    step_results: list[TrialStep] | None = None

    @property
    def phases(self) -> Sequence[Phase]:
        """The steps of the trial, or the trial if it has none."""
        return self.step_results or [self]

    @property
    def failure(self) -> TrialFailure | None:
        """The first exception after which no reward counts, or else the first one."""
        phases = (self, *(self.step_results or ()))
        failures = [phase.exception_info for phase in phases if phase.exception_info]
        return min(failures, key=lambda failure: failure.is_of_agent, default=None)


class PlannedTask(BaseModel):
    name: str = Field(min_length=1)


class PlannedTrial(BaseModel):
    task: PlannedTask


class JobLock(BaseModel):
    """The fields of a job's `lock.json` that are read."""

    trials: list[PlannedTrial]


Trials = tuple[dict[Path, Trial], set[str]]
"""The finished trials by folder, and the names of all planned tasks."""


def read_trials(folder: Path) -> Trials:
    """Read the trials of a job. The folder may hold several jobs.

    Raises:
        UsageError: no trial is finished, or a file cannot be used.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name a job folder of Harbor")
    trials: dict[Path, Trial] = {}
    started, planned = Counter[Path](), dict[Path, list[str]]()
    for path, is_of_trial in _find_trials(folder):
        if not is_of_trial:
            planned[path] = _read_planned(refuse_link(path / "lock.json", folder))
            continue
        started[path.parent] += 1
        result = refuse_link(path / "result.json", folder)
        if not result.is_file():
            continue
        try:
            trials[path] = Trial.model_validate_json(read_content(result))
        except ValidationError as error:
            problem = first_problem(error)
            raise UsageError(f"{result}: not the result of a Harbor trial ({problem})") from None
    if not trials:
        raise UsageError(f"{folder} contains no finished trial of Harbor")
    jobs = started.keys() | planned.keys()
    most = sum(max(started[job], len(planned.get(job, ()))) for job in jobs)
    if missing := most - len(trials):
        warn(f"{folder}: counted as never run: {plural(missing, 'trial')} without result.json.")
    return trials, {name for names in planned.values() for name in names}


def _find_trials(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of jobs, and of trials with True.

    The files below a trial are of the agent, which may have written anything.
    """
    for path, folders, files in walk(folder):
        if "config.json" not in files:
            continue
        is_of_trial = is_trial(refuse_link(path / "config.json", folder))
        if is_of_trial:
            folders.clear()
        yield path, is_of_trial


def is_trial(config: Path) -> bool:
    """Return True if a `config.json` is of a trial, and not of a job or of another program."""
    return b'"trial_name"' in read_content(config)


def _read_planned(lock: Path) -> list[str]:
    """Return the task of each trial of a job. Older releases of Harbor did not list them."""
    try:
        trials = JobLock.model_validate_json(read_content(lock)).trials if lock.is_file() else []
    except ValidationError:
        return []
    return [shorten(trial.task.name) for trial in trials]


def shorten(task: str) -> str:
    """Return the name of a task without its organization."""
    return task.rpartition("/")[2] or task
