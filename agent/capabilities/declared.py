"""The declaration of subagents in an experiment."""

from pydantic import BaseModel, ConfigDict, Field

from agent.models.spec import ModelSpec
from agent.ptc.limits import Count


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubagentKind(_Declared):
    """One kind of subagent."""

    capabilities: list[str] = Field(
        default=["look", "symbols"], description="what it can do; names as those of the arm"
    )
    writes: bool = Field(
        default=False,
        description="false: it works in the workspace of its parent and cannot change files; "
        "true: it works on a branch of its own, which its parent may merge",
    )
    model: ModelSpec | None = Field(default=None, description="its model; default the arm's")
    rounds: Count = Field(default=20, description="model calls")
    prompt: str = Field(default="", description="instructions for its work")


class Delegation(_Declared):
    """The kinds of subagents of an arm, and limits on their number."""

    kinds: dict[str, SubagentKind] = Field(
        default_factory=lambda: {
            "explorer": SubagentKind(prompt="You find out what you are asked, and report it.")
        },
        description="kinds of subagents by name",
    )
    depth: int = Field(default=2, ge=1, le=10, description="levels of subagents below the arm")
    at_once: Count = Field(default=8, description="subagents of a level at the same time")
    in_all: Count = Field(default=32, description="subagents of an attempt")
