"""All cache keys, with the reason for each part.

Prefect's default key contains the run id and the task's source, and would buy an attempt again
after any edit. These keys contain only what determines the result.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agent.arms import ARMS
from agent.arms.durable.options import DurableOptions, FullProfile, LeanProfile, RoleModel
from agent.arms.options import ArmOptions, MiniOptions, MiniRetryOptions
from agent.models.spec import LiteLLMSpec, RecordedSpec, ScriptedSpec, SimulatedSpec
from agent.session.reuse import Origins, fingerprint
from eval.digests import canonical_digest
from flows.experiments import resources
from flows.experiments.arms import ArmSpec
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake

CELL_KEY_FIELDS = {
    "name": "experiments never share results",
    "seed": "another seed is another draw",
    "network": "an agent that can download is another agent",
}
"""Fields of the experiment that are part of a cell's key.

Tests give a reason for each other field.
"""

MODEL_KEY_IGNORED = {
    "api_base": "an address: the server moves, and the model stays the same",
    "timeout_s": "how long an answer is waited for",
    "concurrency": "when a request is sent",
    "max_retries": "how often a request that failed is repeated",
    "input_cost_per_token": "what the answer costs",
    "output_cost_per_token": "what the answer costs",
}
"""Fields of a LiteLLM model that are not part of a key: its address, patience and price.

A test gives a reason for each other field, and fails for a new one.
"""

_SINCE_0_1 = {"concurrency"}
"""The fields among them that release 0.1 did not have."""

EXTRA_IGNORED = {
    **dict.fromkeys(("api_base", "base_url"), "as `api_base`"),
    **dict.fromkeys(("timeout", "request_timeout", "stream_timeout"), "as `timeout_s`"),
    **dict.fromkeys(("ssl_verify", "ssl_certificate"), "how the connection is checked"),
    **dict.fromkeys(("organization", "user", "safety_identifier"), "who asks"),
    **dict.fromkeys(
        (
            *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
            *("aws_session_name", "aws_role_name", "aws_profile_name", "aws_web_identity_token"),
            *("azure_ad_token", "vertex_credentials"),
        ),
        "authenticates the caller",
    ),
    **dict.fromkeys(
        (
            *("vertex_project", "vertex_location", "aws_region_name"),
            *("aws_bedrock_runtime_endpoint", "aws_sts_endpoint"),
        ),
        "where the same model is served",
    ),
    "service_tier": "what the answer costs, and how soon it comes",
    "prompt_cache_key": "what the answer costs",
    **dict.fromkeys(
        (
            *("input_cost_per_token", "output_cost_per_token"),
            *("input_cost_per_second", "output_cost_per_second"),
            *("cache_creation_input_token_cost", "cache_read_input_token_cost"),
        ),
        "what the answer costs",
    ),
}
"""Parameters in `extra` that are not part of a key. Any other one may change the answer, and is."""

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
            *("provider", "name", "temperature", "max_tokens", "reasoning_effort"),
            *("native_tools", "extra"),
        }
    ),
    SimulatedSpec: frozenset(
        {"provider", "skill", "seed", "malformed", "reviewer_accuracy", "cheating"}
    ),
    RecordedSpec: frozenset({"provider", "path"}),
    ScriptedSpec: frozenset({"provider", "replies", "native_tools"}),
}
"""The fields of release 0.1, whose keys contained every field, and fields that identify classes.

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


def attempt_key(cell: Cell) -> str:
    """Return the key of the attempt at a cell, or of the earlier attempt that it continues."""
    earlier = cell.earlier.get(cell.arm.name)
    return get_declared_key(cell) if earlier is None else earlier.key


def attempt_id_of(cell: Cell) -> str:
    """Return the id of the attempt at a cell, in the journal and in the lake."""
    return id_of_key(attempt_key(cell))


def id_of_key(key: str) -> str:
    """Return the id of the attempt with a key."""
    return key[:32]


def get_declared_key(cell: Cell, *, as_in_0_1: bool = False) -> str:
    """Return the key that a declaration gives to a new attempt.

    With `as_in_0_1`, return the key of release 0.1, which contained how models are reached.

    The image digest and the package versions are left out on purpose: after an upgrade or a rebuild
    of the image, paid work must not be bought again. Both are recorded with the attempt. The key of
    a derived arm contains the key of its base, because it shares the draws of that attempt.
    """
    base = None if cell.base is None else get_declared_key(cell.base, as_in_0_1=as_in_0_1)
    return key_of(cell, agent_spec(cell, as_in_0_1=as_in_0_1), base)


def key_of(
    cell: Cell, spec: Mapping[str, Any], base: str | None, of_experiment: Mapping[str, Any] = {}
) -> str:
    """Return the key of an attempt at a cell by an agent, whose base's attempt has the key `base`.

    `of_experiment` replaces fields of the experiment.
    """
    return canonical_digest(
        {
            **{field: getattr(cell.experiment, field) for field in CELL_KEY_FIELDS},
            **of_experiment,
            **spec,
            **({} if base is None else {"from": base}),
            "arm": cell.arm.name,
            "instance": cell.instance.digest,
            "repeat": cell.repeat,
        }
    )


def agent_spec(cell: Cell, *, as_in_0_1: bool = False) -> dict[str, Any]:
    """Return the agent and environment as JSON values; the journal compares them on resuming."""
    model, version = cell.experiment.model_of(cell.arm), ARMS[cell.arm.agent].version
    options = in_key(cell.arm.options, as_in_0_1=as_in_0_1)
    versioned: dict[str, Any] = {"options": options, "agent_version": version}
    if version == 1:  # the key of release 0.1, so that its attempts are found
        versioned = {"options": _ONE_MODEL_FOR_ALL | options}
    return {
        "agent": cell.arm.agent,
        "model": in_key(model, as_in_0_1=as_in_0_1) if model else None,
        **versioned,
        "environment": cell.place.environment,
    }


def agent_version(spec: Mapping[str, Any]) -> int:
    """Return the version of the agent that an attempt was recorded with.

    The first version is not recorded.
    """
    return int(spec.get("agent_version", 1))


def spec_in_key(spec: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """Return the recorded agent of an attempt without the fields that are no longer part of a key.

    Earlier releases recorded how its models were reached. The declaration of the cell shows which
    values are models.
    """

    def reduce(recorded: Any, declared: Any) -> Any:
        if not isinstance(recorded, dict):
            return recorded
        if isinstance(declared, LiteLLMSpec):
            return model_in_key(recorded)
        inner = declared if isinstance(declared, dict) else getattr(declared, "__dict__", {})
        return {name: reduce(value, inner.get(name)) for name, value in recorded.items()}

    declared = {"model": cell.experiment.model_of(cell.arm), "options": cell.arm.options}
    return {name: reduce(value, declared.get(name)) for name, value in spec.items()}


def model_in_key(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a LiteLLM model, as JSON values, that are part of a key."""
    fields = {name: value for name, value in written.items() if name not in MODEL_KEY_IGNORED}
    if isinstance(fields.get("extra"), dict):
        extra = fields["extra"].items()
        fields["extra"] = {name: value for name, value in extra if name not in EXTRA_IGNORED}
    return fields


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
        *resources.in_key(place.limits(cell.instance)).items(),
    ]
    return Origins(model_origins(cell.experiment, cell.arm), fingerprint(decides))


def model_origins(experiment: Experiment, arm: ArmSpec) -> dict[str, str]:
    """Return the digest of the specification of each role's model."""
    model = experiment.model_of(arm)
    specs = arm.options.models(model) if model else {}
    return {role: fingerprint(in_key(spec)) for role, spec in specs.items()}


def in_key(declared: BaseModel, *, as_in_0_1: bool = False) -> dict[str, Any]:
    """Return the fields of a declared model that belong in a key, as JSON values."""

    def reduce(value: Any, json_value: Any) -> Any:
        if isinstance(value, BaseModel):
            return in_key(value, as_in_0_1=as_in_0_1)
        if isinstance(value, dict):
            return {name: reduce(inner, json_value[name]) for name, inner in value.items()}
        return json_value

    json_values = declared.model_dump(mode="json")
    always = ALWAYS_IN_KEY.get(type(declared), frozenset())
    is_litellm = isinstance(declared, LiteLLMSpec)
    if is_litellm and as_in_0_1:
        always |= MODEL_KEY_IGNORED.keys()
    content = {
        name: reduce(getattr(declared, name), json_values[name])
        for name, field in type(declared).model_fields.items()
        if name in always or getattr(declared, name) != field.get_default(call_default_factory=True)
    }
    if is_litellm and as_in_0_1:
        return {name: value for name, value in content.items() if name not in _SINCE_0_1}
    return model_in_key(content) if is_litellm else content


TABLE_OF_TASK = {"attempt": "attempts", "evaluation": "evaluations", "audit": "evaluations"}
"""The table whose rows each cached task writes."""


def is_cached(name: str, key: str, lake: Lake, experiment: str, arm: str) -> bool:
    """Return True if the lake holds the cached result of a task for a key.

    `experiment` and `arm` are where the rows of the task are.
    """
    return lake.has_result_of(TABLE_OF_TASK[name], experiment, arm, result_name(name, key))


def result_name(name: str, key: str) -> str:
    """Return Prefect's key of a result, which is also its file name."""
    return f"{name}-{key}"
