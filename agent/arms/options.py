"""Arm options of an experiment, by agent. Everything else is set by the agent itself."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.limits import Delegation, Programs
from agent.models.spec import ModelSpec

Approval = Literal["plan", "patch"]
"""The work that a person has to approve."""


class ArmOptions(BaseModel):
    """Limits that every agent respects. `null` sets none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_limit_s: float | None = Field(
        default=None, gt=0, description="seconds of work per attempt, over all its runs"
    )

    @property
    def working_limit_s(self) -> float | None:
        """95 % of the time limit. The rest is for reading the change."""
        return self.time_limit_s and self.time_limit_s * 0.95

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own.

        The empty role is for all other roles. `own` is the model of the arm.
        """
        return {"": own}


class MiniOptions(ArmOptions):
    """Limits of mini-swe-agent. `null` keeps the package's own default."""

    step_limit: int | None = Field(
        default=None, ge=1, description="model calls per attempt (mini-swe-agent's own: 250)"
    )
    cost_limit_usd: float | None = Field(
        default=None, gt=0, description="US dollars per attempt (mini-swe-agent's own: 3)"
    )
    command_timeout_s: float | None = Field(
        default=None, gt=0, description="seconds per command (mini-swe-agent's own: 60)"
    )


class MiniRetryOptions(MiniOptions):
    """Limits of mini-swe-agent for each try, and the number of tries."""

    tries: int = Field(
        default=2, ge=1, le=100, description="runs of mini-swe-agent per attempt, at most"
    )


class PythonOptions(ArmOptions):
    """A function of another package, and its settings."""

    function: str = Field(
        min_length=1,
        description="`package.module:function`, or the name of an entry point in `durabench.arms`",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="anything that the function reads from its options"
    )


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentLimits(_Part):
    """Limits of one attempt, over all its agents. Calls in flight count; their cost does not."""

    calls: int | None = Field(default=250, ge=1, description="model calls; null for any number")
    usd: float | None = Field(default=3.0, gt=0, description="US dollars; null for any amount")


class ToolTimeouts(_Part):
    """Time limits of single tools."""

    command_s: float = Field(default=120, gt=0, description="seconds per command")
    test_s: float = Field(default=600, gt=0, description="seconds per run of tests")


Rounds = Annotated[int, Field(ge=1, le=10_000)]


class CrewOptions(ArmOptions):
    """Approval, limits and protection of the arms whose agents work on the loop."""

    approval: Approval | None = Field(
        default=None,
        description="plan: a person approves a plan before files are changed; patch: the change "
        "before it is submitted; null: no approval is needed",
    )
    limits: AgentLimits = Field(default_factory=AgentLimits, description="limits of one attempt")
    timeouts: ToolTimeouts = Field(default_factory=ToolTimeouts, description="of single tools")
    protect_tests: bool = Field(
        default=True, description="revert changes of existing tests and of their configuration"
    )


class LoopOptions(CrewOptions):
    """The capabilities of an agent on the loop, and its limits."""

    capabilities: list[str] = Field(
        default=["files", "symbols", "shell", "tests"],
        min_length=1,
        description="what the agent can do: files, look, symbols, shell, tests, ptc, subagents, "
        "cells, ask, or one of another package as package.module:NAME",
    )
    interactive: bool = Field(
        default=False,
        description="a chat: after each answer the agent waits for the next message of a person",
    )
    rounds: Rounds = Field(default=60, description="model calls of the first agent, per turn")
    roles: dict[str, ModelSpec] = Field(
        default_factory=dict,
        description="models by role: `loop` for the first agent, or a kind of subagent",
    )
    subagents: Delegation = Field(
        default_factory=Delegation, description="kinds of subagents, and limits on their number"
    )
    programs: Programs = Field(default_factory=Programs, description="limits on one program")

    @model_validator(mode="after")
    def _asks_once(self) -> "LoopOptions":
        if self.interactive and self.approval:
            raise ValueError(
                "interactive and approval exclude each other: a chat shows each answer anyway"
            )
        return self

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own.

        Raises:
            InvalidSpec: the capabilities, kinds or roles are invalid.
        """
        from agent.capabilities.registry import (
            check_capabilities,  # imports the capabilities of others
        )

        check_capabilities(self.capabilities, self.subagents, self.roles)
        kinds = self.subagents.kinds.items()
        of_kinds = {name: kind.model for name, kind in kinds if kind.model is not None}
        return {"": own, **of_kinds, **self.roles}


class StageRounds(_Part):
    """Model calls of one conversation of a stage."""

    explore: Rounds = Field(default=20, description="reading the code")
    plan: Rounds = Field(default=6, description="planning")
    build: Rounds = Field(default=40, description="each subtask")
    repair: Rounds = Field(default=20, description="each repair")


class StagedOptions(CrewOptions):
    """The models and limits of the agent that explores, plans, builds and verifies."""

    roles: dict[Literal["explore", "plan", "build", "repair"], ModelSpec] = Field(
        default_factory=dict, description="models by stage; default the arm's model"
    )
    rounds: StageRounds = Field(
        default_factory=StageRounds, description="model calls of one conversation, by stage"
    )
    verifications: int = Field(
        default=5, ge=1, le=50, description="verifications; each but the last leads to a repair"
    )

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the stages that have their own."""
        return {"": own, **{str(stage): spec for stage, spec in self.roles.items()}}
