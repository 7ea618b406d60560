"""The input of a conversation with a model, its limits, and its result.

An attempt has the limits of mini-swe-agent: model calls and US dollars. The same end has the same
word in every arm.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from agent.errors import OutOfCalls, OutOfMoney
from agent.models.protocol import ModelReply
from agent.session.session import Session
from agent.tools import ToolResult
from agent.tools.tool import TEXT, Arguments, Value
from agent.types import End


class Answer(BaseModel):
    """Base of all answers: unknown fields are errors, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass
class Meter:
    """Checks the limits of one attempt against its recorded steps and its calls in flight."""

    session: Session
    calls: int | None = None
    usd: float | None = None
    _in_flight: int = field(default=0, init=False)
    _settled: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set, and replaced, when a call in flight has been answered or has failed."""

    def check(self) -> None:
        """Allow further work, by the calls up to this point. One of unknown cost counts as free.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        replies = [step.result for step in self.session.steps]
        usages = [reply.usage for reply in replies if isinstance(reply, ModelReply)]
        self._compare(len(usages), sum(usage.cost_usd or 0.0 for usage in usages))

    @asynccontextmanager
    async def call(self, scope: Session) -> AsyncIterator[None]:
        """Allow the next call of a scope, which is in flight in this context.

        A recorded call was allowed before. A new one is compared with all known calls, since those
        of concurrent scopes may not be replayed yet. If calls in flight may be the last ones, it
        waits for them. Their cost is not known and does not count.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        if scope.next_recorded is not None:
            yield
            return
        while True:
            spent = scope.attempt.spent
            self._compare(spent.calls, spent.usd)
            if self.calls is None or spent.calls + self._in_flight < self.calls:
                break
            await self._settled.wait()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._settled.set()
            self._settled = asyncio.Event()

    def _compare(self, calls: int, usd: float) -> None:
        if self.calls is not None and calls >= self.calls:
            raise OutOfCalls(f"the attempt has made its {self.calls} model calls")
        if self.usd is not None and usd >= self.usd:
            raise OutOfMoney(f"the attempt has spent its {self.usd:g} US dollars")


A = TypeVar("A", bound=Answer)


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
    """Receives the arguments and a separate scope."""
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


def get_changed_files(uses: Iterable[ToolUse]) -> tuple[str, ...]:
    """Return the files that tools changed, without duplicates."""
    return tuple(dict.fromkeys(path for use in uses for path in use.result.changed))


def get_written_files(uses: Iterable[ToolUse]) -> tuple[str, ...]:
    """Return the files that were passed to an editing tool, so that they exist on purpose."""
    return get_changed_files(use for use in uses if use.name in _EDITING)
