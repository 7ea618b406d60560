"""The limits of an attempt, as mini-swe-agent has them: model calls and US dollars."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent.errors import AgentError
from agent.models.protocol import ModelReply
from agent.session.session import Session


class LimitReached(AgentError):
    """A limit of the attempt was reached. The best change so far is submitted."""


@dataclass
class Meter:
    """Checks the limits of one attempt against its recorded steps and its calls in flight."""

    session: Session
    calls: int | None = None
    usd: float | None = None
    _in_flight: int = field(default=0, init=False)

    def check(self) -> None:
        """Allow further work, by the calls up to this point. One of unknown cost counts as free.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        replies = [step.result for step in self.session.steps]
        usages = [reply.usage for reply in replies if isinstance(reply, ModelReply)]
        self._compare(len(usages), sum(usage.cost_usd or 0.0 for usage in usages))

    @contextmanager
    def call(self, scope: Session) -> Iterator[None]:
        """Allow the next call of a scope, which is in flight in this context.

        A recorded call was allowed before. A new one is compared with all known calls, since those
        of concurrent scopes may not be replayed yet. The cost of calls in flight is not known and
        does not count.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        if scope.next_recorded is not None:
            yield
            return
        spent = scope.spent
        self._compare(spent.calls + self._in_flight, spent.usd)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def _compare(self, calls: int, usd: float) -> None:
        if self.calls is not None and calls >= self.calls:
            raise LimitReached(f"the attempt has made its {self.calls} model calls")
        if self.usd is not None and usd >= self.usd:
            raise LimitReached(f"the attempt has spent its {self.usd:g} US dollars")
