"""All cache keys, with the reason for each part.

Prefect's default key contains the run id and the task's source, and would buy an attempt again
after any edit. These keys contain only what determines the result.
"""

from typing import Any

from pydantic import BaseModel

from agent.arms import ARMS
from agent.arms.durable.profile import FullProfile, LeanProfile, RoleModel
from agent.arms.options import ArmOptions, DurableOptions, MiniOptions, MiniRetryOptions
from agent.models.spec import LiteLLMSpec, RecordedSpec, ScriptedSpec, SimulatedSpec
from agent.session.reuse import Origins, fingerprint
from eval import audit
from eval.digests import canonical_digest
from eval.grading import grading_key
from flows.experiments.arms import ArmSpec
from flows.experiments.cells import Cell, Submission
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake

CELL_KEY_FIELDS = {
    "name": "results of one experiment are never those of another",
    "seed": "another seed is another draw",
    "network": "an agent that can download is another agent",
}
"""Fields of the experiment that are part of a cell's key."""

CELL_KEY_IGNORED = {
    "dataset": "the row's own digest is in the key",
    "split": "the row's own digest is in the key",
    "select": "which other instances are run does not change this one",
    "environment": "the environment that was decided is in the key",
    "arms": "the cell's own arm is in the key",
    "model": "the model that answers the cell is in the key",
    "repeats": "the cell's own repeat is in the key; more repeats keep the earlier ones",
    "concurrency": "changes when a cell runs, not what it does",
    "evaluation_timeout_s": "belongs to grading, which has its own key",
    "budgets": "a larger budget resumes the same attempt",
    "execution": "changes who runs a cell, not what is run",
    "isolation": "changes which process runs a cell, not what is run",
    "rate_limits": "changes when a model is asked, not what it answers",
    "primary": "changes what is reported, not what is run",
    "family": "changes what is reported, not what is run",
    "willingness_to_pay": "changes what is reported, not what is run",
    "images": "changes when an image is local, not what is in it; a grading's key has its digest",
    "preflight": "says whether a cell is run at all",
    "audit": "belongs to grading, which has its own key",
    "gates": "judge the results, and change nothing of them",
}
"""Fields that are not part of it, with the reason. A test fails if a field is in neither list."""

ALWAYS_IN_KEY: dict[type[BaseModel], frozenset[str]] = {
    ArmOptions: frozenset({"time_limit_s"}),
    MiniOptions: frozenset({"time_limit_s", "step_limit", "cost_limit_usd", "command_timeout_s"}),
    MiniRetryOptions: frozenset(
        {"time_limit_s", "step_limit", "cost_limit_usd", "command_timeout_s", "tries"}
    ),
    DurableOptions: frozenset({"time_limit_s", "profile"}),
    LeanProfile: frozenset({"preset"}),
    FullProfile: frozenset({"preset"}),
    RoleModel: frozenset({"model", "temperature", "reasoning_effort"}),
    LiteLLMSpec: frozenset(
        {
            *("provider", "name", "api_base", "temperature", "max_tokens", "reasoning_effort"),
            *("timeout_s", "max_retries", "native_tools"),
            *("input_cost_per_token", "output_cost_per_token", "extra"),
        }
    ),
    SimulatedSpec: frozenset(
        {"provider", "skill", "seed", "malformed", "reviewer_accuracy", "cheating"}
    ),
    RecordedSpec: frozenset({"provider", "path"}),
    ScriptedSpec: frozenset({"provider", "replies", "native_tools"}),
}
"""The fields of release 0.1, whose keys contained every field, and those that tell classes apart.

A field that was added later is only in a key if it differs from its default, so that adding it
changes no key. Never add to the fields of a class in this table.
"""

_ONE_MODEL_FOR_ALL: dict[str, Any] = {
    "step_limit": None,
    "cost_limit_usd": None,
    "command_timeout_s": None,
    "profile": {
        "roles": {},
        "reproduction": "wanted",
        "anchor_tries": 2,
        "plan_turns": 12,
        "plan_tool_uses": 2,
        "step_rounds": 30,
        "final_rounds": 2,
        "candidates": {"high": 1, "medium": 2, "low": 4},
        "parallel": 2,
        "context_tokens": 128_000,
        "map_tokens": 4_000,
        "test_command": "python -m pytest -q -rA --no-header -p no:cacheprovider {paths}",
        "test_timeout_s": 600.0,
        "command_timeout_s": 120.0,
        "snapshots": False,
        "phase_limit_s": None,
    },
}
"""The option defaults in release 0.1, shared by all agents."""


def attempt_key(cell: Cell, version: int | None = None) -> str:
    """Return the key of an attempt, by default of the agent's current version.

    The image digest and the package versions are left out on purpose: after an upgrade or a rebuild
    of the image, paid work must not be bought again. Both are recorded with the attempt. That of a
    derived arm has its base's, because it shares the draws of just that attempt.
    """
    shares = {} if cell.base is None else {"from": attempt_key(cell.base, version)}
    return canonical_digest(
        {
            **{field: getattr(cell.experiment, field) for field in CELL_KEY_FIELDS},
            **agent_spec(cell, version),
            **shares,
            "arm": cell.arm.name,
            "instance": cell.instance.digest,
            "repeat": cell.repeat,
        }
    )


def agent_spec(cell: Cell, version: int | None = None) -> dict[str, Any]:
    """Return the agent and environment as JSON values; the journal compares them on resuming."""
    model = cell.experiment.model_of(cell.arm)
    return {
        "agent": cell.arm.agent,
        "model": in_key(model) if model else None,
        **_options(cell, version or ARMS[cell.arm.agent].version),
        "environment": cell.place.environment,
    }


def origins(cell: Cell) -> Origins:
    """Return what decides the results of an attempt's steps besides their requests.

    Unlike the key of the attempt, it holds the digest of the image: what ran in another image is
    run again.
    """
    place = cell.place
    if place.environment == "docker" and place.image_digest is None:
        return Origins(model_origins(cell.experiment, cell.arm))
    decides = [
        *(cell.instance.digest, place.environment, place.image_digest, place.network),
        *(cell.arm.agent, ARMS[cell.arm.agent].version),
    ]
    return Origins(model_origins(cell.experiment, cell.arm), fingerprint(decides))


def model_origins(experiment: Experiment, arm: ArmSpec) -> dict[str, str]:
    """Return the digest of the specification of each role's model."""
    own = experiment.model_of(arm)
    specs = arm.options.models(own) if own else {}
    return {role: fingerprint(in_key(spec)) for role, spec in specs.items()}


def _options(cell: Cell, version: int) -> dict[str, Any]:
    """Return the options of an arm for its key.

    The keys of an agent's first version equal those of release 0.1, so that its attempts are found.
    """
    options = cell.arm.options
    if version > 1:
        return {"options": in_key(options), "agent_version": version}
    if isinstance(options, DurableOptions):
        return {"options": _ONE_MODEL_FOR_ALL | _durable_of_0_1(options)}
    return {"options": _ONE_MODEL_FOR_ALL | in_key(options)}


def _durable_of_0_1(options: DurableOptions) -> dict[str, Any]:
    """Return the options of the durable agent's first version that a declaration sets."""
    profile, first = options.profile, _ONE_MODEL_FOR_ALL["profile"]
    written = profile.model_dump(mode="json")
    declared = {
        name: _in_key(getattr(profile, name), written[name])
        for name in profile.model_fields_set & first.keys()
    }
    return {"time_limit_s": options.time_limit_s, "profile": first | declared}


def in_key(declared: BaseModel) -> dict[str, Any]:
    """Return the fields of a declared model that belong in a key, as JSON values."""
    written = declared.model_dump(mode="json")
    always = ALWAYS_IN_KEY.get(type(declared), frozenset())
    return {
        name: _in_key(getattr(declared, name), written[name])
        for name, field in type(declared).model_fields.items()
        if name in always or getattr(declared, name) != field.get_default(call_default_factory=True)
    }


def _in_key(value: Any, written: Any) -> Any:
    if isinstance(value, BaseModel):
        return in_key(value)
    if isinstance(value, dict):
        return {name: _in_key(each, written[name]) for name, each in value.items()}
    return written


def verdict_key(submission: Submission) -> str:
    """Return the key of a grading: exactly the inputs that determine a verdict in `eval.grading`.

    The author of the patch is left out: attempts with the same patch share a verdict, across all
    experiments of the lake.
    """
    place = submission.place
    return grading_key(
        submission.instance,
        place.image_digest or "",
        submission.patch,
        submission.timeout_s,
        f"{place.environment} with network" if place.network else place.environment,
    )


def audit_key(submission: Submission) -> str:
    """Return the key of a second grading: the key of the first, plus the rules of the audit."""
    return canonical_digest({"first": verdict_key(submission), "audit": audit.PROCEDURE})


def is_cached(name: str, key: str, lake: Lake) -> bool:
    """Return True if the lake holds the cached result of a task for a key."""
    return lake.has_result(result_name(name, key))


def result_name(name: str, key: str) -> str:
    """Return Prefect's key of a result, which is also its file name."""
    return f"{name}-{key}"
