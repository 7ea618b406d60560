"""The input of a conversation with a model, and its result."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from agent.conversation.answers import Answer
from agent.conversation.limits import Meter
from agent.session.session import Session
from agent.tools import ToolResult
from agent.tools.tool import TEXT, Arguments, Value

A = TypeVar("A", bound=Answer)

End = Literal["answered", "malformed", "out_of_rounds", "context_full", "out_of_time"]


@dataclass(frozen=True)
class ToolUse:
    """One use of a tool, and its result."""

    name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass(frozen=True)
class Exchange(Generic[A]):
    """The end of a conversation."""

    answer: A | None
    """None unless the role gave a valid answer."""
    end: End
    uses: tuple[ToolUse, ...]


@dataclass(frozen=True)
class Helper:
    """A tool that is more than one step, such as the work of another role.

    The helpers of one reply work at the same time.
    """

    name: str
    arguments: type[Arguments]
    help: Callable[[Any, Session], Awaitable[ToolResult]]
    """Receives the arguments and a scope of its own."""
    changes_files: bool = False
    """True if it may change the workspace, so that later helpers wait for it."""
    value: Value | None = TEXT
    """The value for a program; None if programs cannot use it."""


@dataclass(frozen=True)
class ConversationLimits:
    """Limits on one conversation."""

    context_tokens: int | None = None
    """The context window; None for the model's own."""
    rounds: int = 6
    """Model calls, including malformed replies."""
    tool_uses: int | None = None
    """Tool uses other than `answer`; None for as many as the rounds allow."""
    meter: Meter | None = None
    """Limits of the attempt, checked before every call; None for none."""


_EDITING = frozenset({"write", "apply_patch", "edit"})


def changed_files(uses: Iterable[ToolUse]) -> tuple[str, ...]:
    """Return the files that tools changed, without duplicates."""
    return tuple(dict.fromkeys(path for use in uses for path in use.result.changed))


def written_files(uses: Iterable[ToolUse]) -> tuple[str, ...]:
    """Return the files that were passed to an editing tool, so that they exist on purpose."""
    return changed_files(use for use in uses if use.name in _EDITING)
