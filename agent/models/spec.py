"""Model specifications of an experiment, as data.

A bare string is a LiteLLM model string: `openai/gpt-5` means `{name: openai/gpt-5}`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from agent.errors import InvalidSpec

# Parameters that a call sets itself, and a key, which would be recorded with the experiment.
_NOT_IN_EXTRA = {"model", "messages", "tools", "stream", "num_retries", "max_retries", "api_key"}


Chance = Annotated[float, Field(ge=0, le=1)]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LiteLLMSpec(_Spec):
    """A model that LiteLLM reaches. Its key is read from the provider's environment variable."""

    provider: Literal["litellm"] = "litellm"
    name: str = Field(min_length=1, description="LiteLLM model string, such as `openai/gpt-5`")
    api_base: str | None = Field(
        default=None, description="URL of the API of a custom server; usually ends in `/v1`"
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        description="sampling temperature; default the provider's; not sent to a model "
        "that refuses it, as most reasoning models do",
    )
    api: Literal["chat", "responses"] = Field(
        default="chat", description="responses: OpenAI's Responses API instead of chat completions"
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="output tokens per call; default 16,384, or the model's own limit if lower",
    )
    context_tokens: int | None = Field(
        default=None, ge=1000, description="context window, tokens; default as in LiteLLM's list"
    )
    reasoning_effort: str | None = Field(
        default=None, description="level in the provider's terms, such as `low` or `high`"
    )
    timeout_s: float = Field(default=600, gt=0, description="seconds per request")
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="requests at a time to the server, of all processes with the same journal; a "
        "request that waits for its turn uses up none of timeout_s",
    )
    max_retries: int = Field(default=8, ge=0, description="retries per call")
    native_tools: bool = Field(
        default=True, description="false: the model writes its calls as text"
    )
    input_cost_per_token: float | None = Field(
        default=None, ge=0, description="declared price in US dollars, also of cached tokens"
    )
    output_cost_per_token: float | None = Field(
        default=None, ge=0, description="declared price in US dollars"
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="further parameters for LiteLLM's `acompletion`"
    )

    @field_validator("extra")
    @classmethod
    def _leaves_the_call_alone(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if reserved := sorted(_NOT_IN_EXTRA & extra.keys()):
            raise ValueError(f"cannot set {', '.join(reserved)} (keys belong in the environment)")
        return extra

    @model_validator(mode="after")
    def _api_exists(self) -> "LiteLLMSpec":
        if self.api == "responses" and not self.name.startswith(("openai/", "azure/")):
            raise ValueError("only openai/… and azure/… models have `api: responses`")
        return self

    @model_validator(mode="after")
    def _price_is_whole(self) -> "LiteLLMSpec":
        if (self.input_cost_per_token is None) != (self.output_cost_per_token is None):
            raise ValueError("declare both input_cost_per_token and output_cost_per_token")
        return self


class SimulatedSpec(_Spec):
    """A seeded stand-in that has the reference patch. It measures harnesses, not models."""

    provider: Literal["simulated"]
    skill: Chance = Field(description="probability that one attempt at a whole task is right")
    seed: int = Field(default=0, description="another seed is another draw at the same skill")
    malformed: float = Field(default=0, ge=0, lt=1, description="probability of a malformed reply")
    reviewer_accuracy: Chance = Field(
        default=0.9, description="probability that a review by the durable arm is right"
    )
    cheating: Chance = Field(
        default=0,
        description="probability that an implementer of the durable arm tampers with the tests "
        "instead",
    )
    correlation: Chance = Field(
        default=0.5, description="chance that another try at a task repeats its first mistake"
    )
    insight: Chance = Field(
        default=0.7,
        description="chance that an author told of a failing test blames the right one of code "
        "and test",
    )
    wrong_anchors: Chance = Field(
        default=0.1, description="chance that a new test asserts the mistake of the first try"
    )
    overspecified_anchors: Chance = Field(
        default=0.1,
        description="chance that a new test also asserts a detail that the task does not say",
    )
    flaky_anchors: Chance = Field(
        default=0.02, description="chance that a new test sometimes fails on correct code"
    )
    conflict_claims: Chance = Field(
        default=0.05,
        description="chance that work names an existing test as one that the task contradicts",
    )
    reviewer_catches: Chance | None = Field(
        default=None,
        description="chance that a review finds the fault of a wrong change; none: as often as "
        "`reviewer_accuracy` says",
    )
    asks_for_tests: Chance = Field(
        default=0.1, description="chance that a review objects that no test was added"
    )
    adjudicator_accuracy: Chance = Field(
        default=0.8, description="chance that a ruling names the true cause of a failing test"
    )
    exploration: int = Field(
        default=0, ge=0, description="further looks at the code before it is changed"
    )
    parallel_calls: Chance = Field(
        default=0, description="chance that a look at the code shares a reply with the one before"
    )
    prose: Chance = Field(default=0, description="chance that a reply has prose and no call")
    mini_tests: Chance = Field(
        default=0, description="chance that mini-swe-agent runs the tests before it submits"
    )
    mini_notices: Chance = Field(
        default=0.5, description="chance that these tests show mini-swe-agent a wrong change"
    )

    @model_validator(mode="after")
    def _one_fault_at_a_time(self) -> "SimulatedSpec":
        if self.wrong_anchors + self.overspecified_anchors + self.flaky_anchors > 1:
            raise ValueError("wrong + overspecified + flaky anchors must not exceed 1")
        return self


class RecordedSpec(_Spec):
    """The model side of earlier runs, replayed: trajectories of mini-swe-agent or our own."""

    provider: Literal["recorded"]
    path: Path = Field(
        description="a `.traj.json` file, or a folder with `<id>.traj.json` "
        "or `<id>/<id>.traj.json` for each instance"
    )


class ScriptedSpec(_Spec):
    """A fixed list of replies, the same for every attempt."""

    provider: Literal["scripted"]
    replies: list[str | dict[str, Any]] = Field(
        description="a text, an assistant message in the OpenAI form, `{command: …}`, a call of "
        "the `bash` tool, or `{calls: [{tool: …, arguments: …}]}`"
    )
    native_tools: bool = Field(
        default=True, description="false: the replies hold their calls as text"
    )


def _with_provider(value: Any) -> Any:
    if isinstance(value, str):
        return {"provider": "litellm", "name": value}
    if isinstance(value, dict):
        return {"provider": "litellm", **value}
    return value


_AnySpec = LiteLLMSpec | SimulatedSpec | RecordedSpec | ScriptedSpec

ModelSpec = Annotated[
    Annotated[_AnySpec, Field(discriminator="provider")],
    # Accepted input, for the JSON schema of forms.
    BeforeValidator(_with_provider, json_schema_input_type=str | _AnySpec),
]
"""Any of the four, distinguished by `provider`. The default is `litellm`."""

_ADAPTER: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)


def parse(value: Any) -> ModelSpec:
    """Read a model specification from a string, a mapping or a specification.

    Raises:
        InvalidSpec: the value is invalid; the message names every wrong field.
    """
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False):
            field = ".".join(str(part) for part in problem["loc"][1:])  # [0] is the provider
            message = problem["msg"].removeprefix("Value error, ")
            problems.append(f"{field}: {message}" if field else message)
        raise InvalidSpec(f"model: {'; '.join(problems)}") from None
