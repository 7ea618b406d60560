"""Settings of the durable arm in an experiment: models by role, and settings of each phase."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent.arms.durable.answers import Confidence
from agent.errors import InvalidSpec
from agent.models.spec import LiteLLMSpec, ModelSpec
from agent.tools.tool import PYTEST

Role = Literal[
    "contract",
    "gatherer",
    "brief",
    "anchor",
    "planner",
    "implementer",
    "step_reviewer",
    "final_reviewer",
]

CANDIDATES: dict[Confidence, int] = {"high": 1, "medium": 2, "low": 4}

Count = Annotated[int, Field(ge=1, le=1000)]


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RoleModel(_Declared):
    """The model of one role, if it differs from the arm's model."""

    model: ModelSpec | None = Field(default=None, description="none: the arm's own model")
    temperature: float | None = Field(default=None, ge=0, le=2)
    reasoning_effort: str | None = Field(default=None, description="the provider's word for it")

    def of(self, own: ModelSpec) -> ModelSpec:
        """Return the model of the role, given the arm's own model.

        Raises:
            InvalidSpec: temperature or effort is set for a model that does not support it.
        """
        spec = self.model or own
        changes = {
            name: value
            for name in ("temperature", "reasoning_effort")
            if (value := getattr(self, name)) is not None
        }
        if not changes:
            return spec
        if not isinstance(spec, LiteLLMSpec):
            raise InvalidSpec(f"a {spec.provider} model has no {' and no '.join(changes)}")
        return spec.model_copy(update=changes)


class Profile(_Declared):
    """The durable arm's settings. Reports compare the defaults unless they state otherwise."""

    roles: dict[Role, RoleModel] = Field(default_factory=dict)
    reproduction: Literal["wanted", "required", "off"] = Field(
        default="wanted",
        description="required: an attempt at a bugfix or feature without a failing anchor test "
        "ends as blocked",
    )
    anchor_tries: Count = Field(default=2, description="anchor tests written before giving up")
    plan_turns: Count = Field(default=12, description="turns of the planner in all")
    plan_tool_uses: int = Field(default=2, ge=0, description="read-only tools per planner turn")
    step_rounds: Count = Field(default=30, description="model calls per candidate of a step")
    final_rounds: Count = Field(default=2, description="final reviews before the attempt ends")
    candidates: dict[Confidence, Count] = Field(
        default=CANDIDATES,
        description="candidates of a step by the confidence of the first; what is left out is "
        "as by default",
    )
    parallel: Count = Field(default=2, description="candidates at the same time")
    context_tokens: int | None = Field(
        default=None, ge=1000, description="window of the models, tokens; unset: each model's own"
    )
    map_tokens: int = Field(default=4_000, ge=100, description="repository map, tokens")
    test_command: str = Field(
        default=PYTEST,
        pattern=r"\{paths\}",
        description="how tests are run; {paths} are the test files",
    )
    test_timeout_s: float = Field(default=600, gt=0, description="seconds per run of tests")
    command_timeout_s: float = Field(default=120, gt=0, description="seconds per other command")
    snapshots: bool = Field(
        default=False,
        description="keep containers as images at accepted steps: files that git ignores and "
        "what is outside the repository are then there for the next step and after a crash",
    )
    phase_limit_s: float | None = Field(
        default=None, gt=0, description="seconds of work per reproduction, step or verification"
    )

    @field_validator("candidates")
    @classmethod
    def _of_every_confidence(cls, given: dict[Confidence, int]) -> dict[Confidence, int]:
        return {**CANDIDATES, **given}

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own, given the arm's own model.

        The arm's own model answers all other roles and has the empty role.

        Raises:
            InvalidSpec: as in `RoleModel.of`.
        """
        return {"": own, **{role: settings.of(own) for role, settings in self.roles.items()}}
