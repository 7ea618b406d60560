"""Rate limits of model providers, kept by all workers of a journal together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.journal import Journal

BURST_S = 10.0
"""How much of a rate that was left unused may be used at once, in seconds of the rate."""


class RateLimit(BaseModel):
    """What a provider allows per minute."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_minute: float | None = Field(default=None, gt=0, description="retries included")
    tokens_per_minute: float | None = Field(
        default=None, gt=0, description="of input, estimated, and of max_tokens where that is set"
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.requests_per_minute is None and self.tokens_per_minute is None:
            raise ValueError("give requests_per_minute, tokens_per_minute or both")
        return self

    def taken_s(self, tokens: int) -> dict[str, float]:
        """Seconds that a request takes of each rate, by what the rate is of."""
        taken = {}
        if self.requests_per_minute is not None:
            taken["requests"] = 60 / self.requests_per_minute
        if self.tokens_per_minute is not None:
            taken["tokens"] = 60 * tokens / self.tokens_per_minute
        return taken


@dataclass(frozen=True)
class Pace:
    """Lets requests go when every rate that they count in allows it."""

    journal: Journal
    limits: Mapping[str, RateLimit]
    """By provider or model string, whichever names they are asked for by."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)

    async def admit(self, names: Collection[str], tokens: int) -> None:
        """Return when a request of so many tokens may be sent to what is called by `names`.

        Raises:
            JournalError: the journal cannot be reached.
        """
        waits = [
            await asyncio.to_thread(self.journal.take_turn, f"{name} {kind}", seconds, BURST_S)
            for name in names
            if name in self.limits
            for kind, seconds in self.limits[name].taken_s(tokens).items()
        ]
        if wait_s := max(waits, default=0.0):
            await self.sleep(wait_s)


@dataclass(frozen=True)
class Sending:
    """When the requests of an attempt may be sent: at the pace of its providers, and only until
    the run is asked to stop."""

    may_go_on: Callable[[], None]
    """Raises Interrupted once the run is asked to stop."""
    sleep: Callable[[float], Awaitable[None]]
    """Waits so many seconds, or raises Interrupted as soon as the run is asked to stop."""
    pace: Pace | None = None

    async def admit(self, names: Collection[str], tokens: int) -> None:
        """Return when a request may be sent; see `Pace.admit`.

        Raises:
            Interrupted: the run was asked to stop, before or while this waited.
            JournalError: the journal cannot be reached.
        """
        if self.pace is not None:
            await self.pace.admit(names, tokens)
        self.may_go_on()
