"""What an experiment may change about an arm; everything else is the arm's own."""

from pydantic import BaseModel, ConfigDict, Field

from agent.durable.profile import Profile


class ArmOptions(BaseModel):
    """Limits of one attempt. `null` keeps the arm's own default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step_limit: int | None = Field(
        default=None, ge=1, description="model calls per attempt (mini-swe-agent's own: 250)"
    )
    cost_limit_usd: float | None = Field(
        default=None, gt=0, description="US dollars per attempt (mini-swe-agent's own: 3)"
    )
    command_timeout_s: float | None = Field(
        default=None, gt=0, description="seconds per command (mini-swe-agent's own: 60)"
    )
    time_limit_s: float | None = Field(
        default=None, gt=0, description="seconds of work per attempt, over all its runs"
    )
    profile: Profile = Field(
        default_factory=Profile, description="settings of the durable arm; others ignore it"
    )
