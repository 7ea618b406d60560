"""Limits on programs, subagents and existing tests, as an experiment declares them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent.models.spec import ModelSpec

Count = Annotated[int, Field(ge=1, le=10_000)]

SHARE = 0.2
"""Share of an attempt's time so far that existing tests may take, without and with a change."""


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Programs(_Declared):
    """Limits on one program of the model, which learns when it reaches one."""

    calls: Count = Field(default=200, description="tool calls")
    seconds: float = Field(default=10, gt=0, description="seconds of the interpreter's own work")
    memory_mb: Count = Field(default=64, description="megabytes of its variables")
    recursion: Count = Field(default=200, description="nested calls of functions")
    output_kb: Count = Field(default=64, description="kilobytes of its value and of its prints")
    code_kb: Count = Field(default=64, description="kilobytes of its code")


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
