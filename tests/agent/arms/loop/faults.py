"""Tools that fail on purpose, to see what an agent and its journal do about it."""

from pydantic import Field, PrivateAttr

from agent.capabilities.base import Capability
from agent.errors import Retryable, ToolFailed
from agent.tools.tool import Arguments, Refused, Tool, ToolResult, ToolSettings
from agent.workspaces import Workspace


class Flaky(Arguments):
    """Fail for a reason that passes, then succeed. It is tried again without you."""

    failures: int = Field(default=2, ge=0, description="tries that fail before one succeeds")
    _tried: int = PrivateAttr(default=0)

    def fails(self) -> bool:
        """Return True if this try has to fail."""
        self._tried += 1
        return self._tried <= self.failures


class Invalid(Arguments):
    """Refuse any amount below 1."""

    amount: int


class Broken(Arguments):
    """Fail for a reason that ends the attempt."""


class Slow(Arguments):
    """Take some time."""

    seconds: float = Field(default=1.0, ge=0, le=3600)


async def _flaky(workspace: Workspace, settings: ToolSettings, asked: Flaky) -> ToolResult:
    if asked.fails():
        raise Retryable("the service does not answer", after_s=0.01)
    return ToolResult("the service answered")


async def _invalid(workspace: Workspace, settings: ToolSettings, asked: Invalid) -> ToolResult:
    if asked.amount < 1:
        raise Refused(f"amount is {asked.amount}, and has to be at least 1")
    return ToolResult(f"amount is {asked.amount}")


async def _broken(workspace: Workspace, settings: ToolSettings, asked: Broken) -> ToolResult:
    raise ToolFailed("the tool is broken")


async def _slow(workspace: Workspace, settings: ToolSettings, asked: Slow) -> ToolResult:
    await workspace.run(f"sleep {asked.seconds}", timeout_s=settings.command_timeout_s)
    return ToolResult(f"slept {asked.seconds:g} s")


FAULTS = Capability(
    "faults",
    tools=(
        Tool("flaky", Flaky, _flaky),
        Tool("invalid", Invalid, _invalid),
        Tool("broken", Broken, _broken),
        Tool("slow", Slow, _slow),
    ),
)
