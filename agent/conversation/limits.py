"""The limits of an attempt, as mini-swe-agent has them: model calls and US dollars."""

from dataclasses import dataclass

from agent.errors import AgentError
from agent.models.protocol import ModelReply
from agent.session.session import Session


class LimitReached(AgentError):
    """A limit of the attempt was reached. The best change so far is submitted."""


@dataclass(frozen=True)
class Meter:
    """Checks the limits of one attempt against its recorded steps."""

    session: Session
    calls: int | None = None
    usd: float | None = None

    def check(self) -> None:
        """Allow further work, by the calls up to this point. One of unknown cost counts as free.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        replies = [step.result for step in self.session.steps]
        usages = [reply.usage for reply in replies if isinstance(reply, ModelReply)]
        self._compare(len(usages), sum(usage.cost_usd or 0.0 for usage in usages))

    def check_call(self, scope: Session) -> None:
        """Allow the next call of a scope. A recorded one was allowed before.

        A new call is compared with all known ones. Those of concurrent scopes may not be replayed
        yet.

        Raises:
            LimitReached: the attempt has used up its calls or its money.
        """
        if scope.next_recorded is None:
            spent = scope.spent
            self._compare(spent.calls, spent.usd)

    def _compare(self, calls: int, usd: float) -> None:
        if self.calls is not None and calls >= self.calls:
            raise LimitReached(f"the attempt has made its {self.calls} model calls")
        if self.usd is not None and usd >= self.usd:
            raise LimitReached(f"the attempt has spent its {self.usd:g} US dollars")
