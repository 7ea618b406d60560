"""Rate limits and slots of model servers, shared by all workers of a journal."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.journal import Journal
from agent.journal.holding import hold_one
from agent.models.retry import Retry

BURST_S = 10.0
"""Unused capacity that may be used at once, in seconds of the rate."""


class RateLimit(BaseModel):
    """Requests and tokens that a provider allows per minute."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_minute: float | None = Field(
        default=None, gt=0, description="requests, including retries"
    )
    tokens_per_minute: float | None = Field(
        default=None, gt=0, description="estimated input tokens plus max_tokens if set"
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.requests_per_minute is None and self.tokens_per_minute is None:
            raise ValueError("give requests_per_minute, tokens_per_minute or both")
        return self


@dataclass(frozen=True)
class Pace:
    """Delays requests until all of their rates allow them."""

    journal: Journal
    limits: Mapping[str, RateLimit]
    """Limits by provider or model string, matching the names passed to `admit`."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)

    async def admit(self, names: Collection[str], tokens: int) -> None:
        """Wait until a request may be sent to the provider or model with these names.

        `tokens` is the size of the request.

        Raises:
            JournalError: the journal is unreachable.
        """
        waits = []
        for name in names:
            if (limit := self.limits.get(name)) is None:
                continue
            for kind, size, rate in (
                ("requests", 1, limit.requests_per_minute),
                ("tokens", tokens, limit.tokens_per_minute),
            ):
                if rate is not None:
                    turn = (f"{name} {kind}", 60 * size / rate, BURST_S)
                    waits.append(await asyncio.to_thread(self.journal.take_turn, *turn))
        if wait_s := max(waits, default=0.0):
            await self.sleep(wait_s)

    @asynccontextmanager
    async def hold_slot(self, server: str, number: int) -> AsyncIterator[None]:
        """Hold one of the slots of a server in the block, once one is free.

        Whoever is next holds the lease of the line, so no process starves another one.

        Raises:
            JournalError: the journal is unreachable.
        """
        slots = [f"slot {slot} of {server}" for slot in range(number)]
        line = _LINES.setdefault(asyncio.get_running_loop(), {}).setdefault(server, asyncio.Lock())
        async with AsyncExitStack() as stack:
            async with line, hold_one(self.journal, [f"line of {server}"], self.sleep):
                await stack.enter_async_context(hold_one(self.journal, slots, self.sleep))
            yield


_LINES: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]]" = (
    weakref.WeakKeyDictionary()
)
"""The tasks of this process that wait for a slot. One of them at a time asks the journal."""


@dataclass(frozen=True)
class Sending:
    """Controls when an attempt sends requests, and who receives the answers as they arrive.

    Requests keep to the pace of their providers, and stop once the run is asked to stop.
    """

    may_go_on: Callable[[], None] = lambda: None
    """Raises Interrupted once the run is asked to stop."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits this many seconds, or raises Interrupted as soon as the run is asked to stop."""
    pace: Pace | None = None
    tell: Callable[[str], None] | None = None
    """Receives the texts of answers while they are generated; None if they are not streamed."""
    report_retry: Callable[[Retry], Awaitable[None]] | None = None
    """Receives each failed request of a call, before the wait for the next one."""

    async def admit(self, names: Collection[str], tokens: int) -> None:
        """Wait until a request may be sent; see `Pace.admit`.

        Raises:
            Interrupted: the run was asked to stop, before or during the wait.
            JournalError: the journal is unreachable.
        """
        if self.pace is not None:
            await self.pace.admit(names, tokens)
        self.may_go_on()

    def hold_slot(self, server: str, number: int | None) -> AbstractAsyncContextManager[None]:
        """Return a context for a request to a server with a number of slots, if it is known."""
        if self.pace is None or number is None:
            return nullcontext()
        return self.pace.hold_slot(server, number)
