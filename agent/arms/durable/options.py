"""Options of the durable arm in an experiment."""

from pydantic import Field
from pydantic.config import JsonDict

from agent.arms.durable.profile import LeanProfile, Profile
from agent.arms.options import Approval, ArmOptions
from agent.models.spec import ModelSpec


def _any_preset(schema: JsonDict) -> None:
    """Let settings that both presets have pass without a `preset`."""
    schema["anyOf"] = schema.pop("oneOf")


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
        json_schema_extra=_any_preset,
    )

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own.

        Raises:
            InvalidSpec: as in `Profile.models`.
        """
        return self.profile.models(own)
