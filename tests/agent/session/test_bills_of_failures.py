"""Random failures of a call, from the provider's side to the ledger on both databases."""

import asyncio
import itertools

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import BudgetExhausted, ModelError
from agent.journal import Attempt, Journal, Lease, Limit, Reservation
from agent.models.retry import EmptyAnswer, RetryPolicy, call_with_retries
from tests.agent.journal.workers import EXPERIMENT, intend, record

RESERVED_USD = 0.10
BUDGET_USD = 1.00


class Refused(Exception):
    """An answer of a provider with a status, in the shape that LiteLLM gives to it."""

    def __init__(self, status: int) -> None:
        super().__init__("no")
        self.status_code = status
        self.litellm_response_headers = {"content-type": "text/plain", "retry-after": "0"}


FREE = {
    **{f"status {status}": Refused(status) for status in (400, 401, 402, 403, 404, 413, 422, 429)},
    **{f"status {status}": Refused(status) for status in (302, 500, 503, 529)},
    "refused connection": httpx.ConnectError("refused"),
    "no tunnel": httpx.ProxyError("no"),
    "bad request of ours": httpx.LocalProtocolError("bad header"),
}
PERHAPS_PAID = {
    **{f"status {status}": Refused(status) for status in (200, 408, 418, 499, 502, 504, 520, 599)},
    "late": TimeoutError(),
    "no choices": EmptyAnswer("no choices"),
}
FAILURES = {**FREE, **PERHAPS_PAID}
CALLS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(FAILURES)), max_size=5),
        st.floats(0, RESERVED_USD),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
_NAMES = itertools.count()


class Provider:
    """Charges for each request that it may have worked on, up to what was reserved."""

    def __init__(self, failures: list[str], cost_usd: float) -> None:
        self._failures, self._cost_usd = list(failures), cost_usd
        self.charged_usd, self.paid = 0.0, 0

    async def __call__(self) -> float:
        failure = self._failures.pop(0) if self._failures else None
        if failure not in FREE:
            self.charged_usd += self._cost_usd
            self.paid += 1
        if failure is not None:
            raise FAILURES[failure]
        return self._cost_usd


@given(calls=CALLS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_ledger_covers_what_is_charged(
    journal: Journal, calls: list[tuple[list[str], float, bool]]
) -> None:
    """It counts each request that may be paid, bills at least their sum, and no budget is passed.

    A call without any doubt is billed exactly. The worker is killed after some of the calls.
    """
    name = f"a{next(_NAMES)}"
    journal.start(Attempt(name, f"{EXPERIMENT}-{name}", "mini", "i", 0, "{}"))
    limits = (Limit("attempt", name, BUDGET_USD, None),)
    lease = journal.acquire(name, "w", 300)
    charged, paid, is_certain = 0.0, 0, True

    async def no_sleep(seconds: float) -> None:
        return None

    for seq, (failures, cost_usd, is_killed) in enumerate(calls):
        try:
            intend(journal, lease, seq, usd=RESERVED_USD, limits=limits)
        except BudgetExhausted:
            break
        provider, number = Provider(failures, cost_usd), seq

        async def reserve(held: Lease = lease, number: int = number) -> None:
            journal.resend(held, "", number, Reservation(RESERVED_USD, limits))

        try:
            answer, _ = asyncio.run(
                call_with_retries(provider, RetryPolicy(), sleep=no_sleep, before_resend=reserve)
            )
            record(journal, lease, seq, cost=answer)
        except ModelError as error:
            if error.is_free:
                journal.cancel(lease, "", seq)
        except BudgetExhausted:
            pass
        charged, paid = charged + provider.charged_usd, paid + provider.paid
        is_certain = is_certain and all(failure in FREE for failure in failures)
        if is_killed:
            journal.expire(name, "w")
            lease = journal.acquire(name, "w", 300)
    spent_usd, counted = journal.spent(limits[0])
    assert counted == paid
    assert charged - 1e-6 <= spent_usd <= BUDGET_USD + 1e-6
    if is_certain:
        assert abs(spent_usd - charged) < 1e-6
