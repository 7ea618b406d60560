"""The limits of an attempt, as mini-swe-agent has them: model calls and US dollars."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agent.errors import AgentError
from agent.models.protocol import ModelReply
from agent.session.session import Session


class LimitReached(AgentError):
    """A limit of the attempt was reached. The best change so far is submitted."""


class OutOfCalls(LimitReached):
    """The attempt has made all its model calls."""


class OutOfMoney(LimitReached):
    """The attempt has spent all its money."""


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
        while not self._has_room(scope):
            await self._settled.wait()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._settled.set()
            self._settled = asyncio.Event()

    def _has_room(self, scope: Session) -> bool:
        spent = scope.spent
        self._compare(spent.calls, spent.usd)
        return self.calls is None or spent.calls + self._in_flight < self.calls

    def _compare(self, calls: int, usd: float) -> None:
        if self.calls is not None and calls >= self.calls:
            raise OutOfCalls(f"the attempt has made its {self.calls} model calls")
        if self.usd is not None and usd >= self.usd:
            raise OutOfMoney(f"the attempt has spent its {self.usd:g} US dollars")
