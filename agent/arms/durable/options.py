"""Options of the durable arm in an experiment."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from agent.arms.options import Approval, ArmOptions
from agent.errors import InvalidSpec
from agent.limits import SHARE
from agent.models.spec import LiteLLMSpec, ModelSpec

Role = Literal[
    "solver",
    "adjudicator",
    "scout",
    "contract",
    "gatherer",
    "brief",
    "anchor",
    "planner",
    "implementer",
    "step_reviewer",
    "final_reviewer",
]

Confidence = Literal["high", "medium", "low"]

CANDIDATES: dict[Confidence, int] = {"high": 1, "medium": 2, "low": 4}

RECORDED_MAP = {"lean": 0, "full": 4_000}
"""Tokens of the map that earlier releases drew by default, by preset. Records contain them."""

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


class CommonProfile(_Declared):
    """Settings that both presets have."""

    roles: dict[Role, RoleModel] = Field(default_factory=dict)
    reproduction: Literal["wanted", "required", "off"] = Field(
        default="wanted",
        description="required: an attempt at a bugfix or feature without a failing new test ends "
        "as blocked",
    )
    adjudication: bool = Field(
        default=True,
        description="ask for the cause when the same check rejects twice in a row; a wrong new "
        "test is withdrawn, and an existing test that the task contradicts is excepted",
    )
    ptc: bool = Field(
        default=False,
        description="programs over their tools (`run_ptc`) for all roles that have tools",
    )
    context_tokens: int | None = Field(
        default=None, ge=1000, description="window of the models, tokens; none: each model's own"
    )
    test_command: str | None = Field(
        default=None,
        pattern=r"\{paths\}",
        description="how tests are run, {paths} are the test files; none: as the repository of "
        "each instance does",
    )
    test_timeout_s: float = Field(default=600, gt=0, description="seconds per run of tests")
    regression_share: float = Field(
        default=SHARE,
        gt=0,
        le=1,
        description="share of the attempt's time so far that existing tests may take at a gate, "
        "without and with the change, at least 60 s; slower files are left out",
    )
    command_timeout_s: float = Field(default=120, gt=0, description="seconds per other command")
    cells: bool = Field(
        default=False, description="a notebook of Python cells for who changes the code"
    )
    phase_limit_s: float | None = Field(
        default=None, gt=0, description="seconds of work per reproduction, step or verification"
    )

    @model_validator(mode="before")
    @classmethod
    def _has_no_map(cls, given: Any) -> Any:
        """Drop the removed option `map_tokens` where a record has its default of then."""
        if not isinstance(given, Mapping) or "map_tokens" not in given:
            return given
        if given["map_tokens"] != RECORDED_MAP[cls.model_fields["preset"].default]:
            raise ValueError("delete map_tokens: the repository map changed no result and is gone")
        return {name: value for name, value in given.items() if name != "map_tokens"}

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own, given the arm's own model.

        The arm's own model answers all other roles and has the empty role.

        Raises:
            InvalidSpec: as in `RoleModel.of`.
        """
        return {"": own, **{role: settings.of(own) for role, settings in self.roles.items()}}


class LeanProfile(CommonProfile):
    """One conversation reads, reproduces, edits and tests, and then the gates decide.

    A red gate is repaired in the same conversation. What stays red is ruled on, then scouted and
    tried again with another approach.
    """

    preset: Literal["lean"] = "lean"
    rounds: Count = Field(default=60, description="model calls per conversation of the solver")
    repairs: int = Field(
        default=2, ge=0, description="rejections that are repaired in the same conversation"
    )
    approaches: int = Field(
        default=1, ge=0, description="1: scout and try another approach after a rejected one"
    )
    review: Literal["never", "always"] = Field(
        default="never", description="review of a change whose checks pass"
    )

    @field_validator("approaches")
    @classmethod
    def _refuse_third_approach(cls, given: int) -> int:
        if given > 1:
            raise ValueError("a third approach was not worth it and was removed: write 1 or 0")
        return given

    @field_validator("review", mode="before")
    @classmethod
    def _refuse_removed_review(cls, given: object) -> object:
        if given == "without_test":
            raise ValueError("without_test was not worth it and was removed: write never or always")
        return given


class FullProfile(CommonProfile):
    """The complete design.

    It has a contract, a brief, a planner, candidates by confidence, and reviews of each step and
    of the whole change.
    """

    preset: Literal["full"] = "full"
    anchor_tries: Count = Field(default=2, description="anchor tests written before giving up")
    plan_turns: Count = Field(default=12, description="turns of the planner in all")
    plan_tool_uses: int = Field(default=2, ge=0, description="read-only tools per planner turn")
    step_rounds: Count = Field(default=30, description="model calls per candidate of a step")
    final_rounds: Count = Field(default=2, description="final reviews before the attempt ends")
    patience: Count = Field(
        default=2, description="turns without progress after which the attempt ends"
    )
    candidates: dict[Confidence, Count] = Field(
        default=CANDIDATES,
        description="candidates of a step by the confidence of the first; omitted levels keep "
        "their default",
    )
    parallel: Count = Field(default=2, description="candidates at the same time")
    snapshots: bool = Field(
        default=False,
        description="keep containers as images at accepted steps: files that git ignores and "
        "what is outside the repository are then there for the next step and after a crash",
    )

    @field_validator("candidates")
    @classmethod
    def _of_every_confidence(cls, given: dict[Confidence, int]) -> dict[Confidence, int]:
        return {**CANDIDATES, **given}


def _preset(given: Any) -> str:
    """Return the preset. A declaration without one is full if it has settings of full only."""
    if isinstance(given, LeanProfile | FullProfile):
        return given.preset
    if not isinstance(given, Mapping):
        return "lean"
    only_full = FullProfile.model_fields.keys() - LeanProfile.model_fields.keys()
    return str(given.get("preset") or ("full" if only_full & given.keys() else "lean"))


Profile = Annotated[
    Annotated[LeanProfile, Tag("lean")] | Annotated[FullProfile, Tag("full")],
    Discriminator(_preset),
]
"""Settings of the durable arm. Reports compare the defaults unless they state otherwise."""


def _check_by_preset(schema: dict[str, Any]) -> None:
    """Let the JSON schema of a profile choose the preset as `_preset` does."""
    lean, full = schema.pop("oneOf")
    only_full = FullProfile.model_fields.keys() - LeanProfile.model_fields.keys()
    has_full = [{"required": [name]} for name in sorted(only_full)]
    schema["if"] = {
        "properties": {"preset": {"const": "full"}},
        "anyOf": [{"required": ["preset"]}, *has_full],
    }
    schema |= {"then": full, "else": lean}


class DurableOptions(ArmOptions):
    """Limits and settings of the durable agent."""

    step_limit: int | None = Field(
        default=250, ge=1, description="model calls per attempt; null for any number"
    )
    cost_limit_usd: float | None = Field(
        default=3.0, gt=0, description="US dollars per attempt; null for any amount"
    )
    approval: Approval | None = Field(
        default=None,
        description="plan: a person approves a plan before the work; patch: the change before it "
        "is submitted; null: no approval is needed",
    )
    profile: Profile = Field(
        default_factory=LeanProfile,
        description="the preset, models by role, and the settings of each phase",
        json_schema_extra=_check_by_preset,
    )

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own.

        Raises:
            InvalidSpec: as in `Profile.models`.
        """
        return self.profile.models(own)
