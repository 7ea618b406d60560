"""The ledger counts every call once and never lets a limit be exceeded."""

import threading
from typing import Literal

import pytest

from agent.errors import BudgetExhausted, BudgetReserved, JournalError
from agent.journal import Journal, Lease, Limit, NewStep, Reservation
from tests.agent.journal.workers import (
    EXPERIMENT,
    Meter,
    attempt,
    budget,
    intend,
    record,
    spend,
)

THE_LIMITS = (
    Limit("attempt", "a1", None, None),
    Limit("arm", "exp/mini", None, None),
    Limit("experiment", "exp", None, None),
)


def test_a_call_counts_from_its_reservation_to_its_cost(journal: Journal, lease: Lease) -> None:
    """A call in flight counts at its reservation, and a finished call counts at its cost."""
    intend(journal, lease, 0, usd=0.30)
    assert [journal.spent(limit) for limit in THE_LIMITS] == [(0.30, 1)] * 3
    record(journal, lease, 0, cost=0.07)
    assert [journal.spent(limit) for limit in THE_LIMITS] == [(0.07, 1)] * 3


def test_an_unknown_cost_counts_at_the_reservation(journal: Journal, lease: Lease) -> None:
    """A call without a known price is settled at its reservation and marked as unpriced."""
    intend(journal, lease, 0, usd=0.30)
    record(journal, lease, 0, cost=None)
    account = journal.account("a1")
    assert (account.billed_usd, account.credited_usd, account.unpriced_calls) == (0.30, 0.30, 1)
    assert journal.steps("a1")[0].cost_usd is None


def test_commands_are_not_calls(journal: Journal, lease: Lease) -> None:
    """A step without a reservation costs nothing, and recording a cost for it is an error."""
    intend(journal, lease, 0)
    record(journal, lease, 0)
    intend(journal, lease, 1)
    with pytest.raises(JournalError, match="reserved nothing"):
        record(journal, lease, 1, cost=0.01)
    account = journal.account("a1")
    assert (account.calls_billed, account.calls_credited, account.unpriced_calls) == (0, 0, 0)


@pytest.mark.parametrize("limit", THE_LIMITS, ids=lambda limit: limit.kind)
def test_a_limit_refuses_what_does_not_fit(journal: Journal, lease: Lease, limit: Limit) -> None:
    """A call that could exceed a limit is refused by the limit's name and leaves no step."""
    half = Limit(limit.kind, limit.name, 0.50, None)
    intend(journal, lease, 0, usd=0.30, limits=(half,))
    message = rf"the budget of {limit.kind} {limit.name} is \$0.5000: \$0.3000 .* cost \$0.2001"
    with pytest.raises(BudgetExhausted, match=message):
        intend(journal, lease, 1, usd=0.2001, limits=(half,))
    assert len(journal.steps("a1")) == 1
    assert [journal.spent(one) for one in THE_LIMITS] == [(0.30, 1)] * 3
    intend(journal, lease, 1, usd=0.20, limits=(half,))


def test_calls_are_limited_too(journal: Journal, lease: Lease) -> None:
    """A limit on calls counts those in flight but not those that were cancelled."""
    intend(journal, lease, 0, usd=0.0, limits=budget(calls=2))
    intend(journal, lease, 1, usd=0.0, limits=budget(calls=2))
    with pytest.raises(BudgetExhausted, match="has no calls left of 2"):
        intend(journal, lease, 2, usd=0.0, limits=budget(calls=2))
    journal.cancel(lease, "", 1)
    intend(journal, lease, 2, usd=0.0, limits=budget(calls=2))


def test_ten_dimes_make_a_dollar(journal: Journal, lease: Lease) -> None:
    """Sums of prices are exact: a budget can be spent to the last cent and no further."""
    for seq in range(10):
        intend(journal, lease, seq, usd=0.1, limits=budget(1.0))
    assert journal.spent(budget()[0]) == (1.0, 10)
    with pytest.raises(BudgetExhausted):
        intend(journal, lease, 10, usd=0.000001, limits=budget(1.0))


def test_a_limit_has_to_be_the_attempts_own(journal: Journal, lease: Lease) -> None:
    """A limit that does not apply to the attempt is refused, because it would never take effect."""
    with pytest.raises(JournalError, match="a1 does not count in arm exp/gold"):
        intend(journal, lease, 0, usd=0.1, limits=(Limit("arm", "exp/gold", 1.0, None),))
    assert journal.steps("a1") == []


@pytest.mark.parametrize("usd", [-0.01, float("nan"), float("inf")])
def test_only_amounts_of_money_are_reserved(journal: Journal, lease: Lease, usd: float) -> None:
    """A reservation that cannot be compared with a limit is refused."""
    with pytest.raises(ValueError, match="not an amount of money"):
        journal.intend(lease, NewStep("", 0, "model", "d", b""), Reservation(usd, ()))


def test_reservations_of_active_workers_can_be_waited_for(journal: Journal, lease: Lease) -> None:
    """Only reservations of active workers can be released, so only those are worth a wait."""
    half = budget(0.50)
    intend(journal, lease, 0, usd=0.30, limits=half)
    with pytest.raises(BudgetReserved):
        intend(journal, lease, 1, usd=0.40, limits=half)
    with pytest.raises(BudgetExhausted) as caught:
        intend(journal, lease, 1, usd=0.60, limits=half)
    assert not isinstance(caught.value, BudgetReserved), "larger than the whole budget"
    record(journal, lease, 0, cost=0.20)
    with pytest.raises(BudgetExhausted) as caught:
        intend(journal, lease, 1, usd=0.40, limits=half)
    assert not isinstance(caught.value, BudgetReserved), "nothing is in flight"


def test_reservations_of_the_dead_are_not_waited_for(journal: Journal, lease: Lease) -> None:
    """Calls of a dead worker stay reserved until another worker acquires the attempt."""
    journal.start(attempt("a2", arm="gold"))
    dead = journal.acquire("a2", "second", 0.0)
    intend(journal, dead, 0, usd=0.40)
    with pytest.raises(BudgetExhausted) as caught:
        intend(journal, lease, 0, usd=0.20, limits=budget(0.50))
    assert not isinstance(caught.value, BudgetReserved)


@pytest.mark.parametrize("kind", ["attempt", "arm"])
def test_only_reservations_within_a_limit_are_waited_for(
    journal: Journal, lease: Lease, kind: Literal["attempt", "arm"]
) -> None:
    """A call does not wait for reservations that count against other limits."""
    journal.start(attempt("a2", arm="gold"))
    other = journal.acquire("a2", "second", 300)
    intend(journal, other, 0, usd=0.40)
    record_call(journal, lease, 0, cost=0.40)
    limit = Limit(kind, {"attempt": "a1", "arm": "exp/mini"}[kind], 0.50, None)
    with pytest.raises(BudgetExhausted) as caught:
        intend(journal, lease, 1, usd=0.20, limits=(limit,))
    assert not isinstance(caught.value, BudgetReserved)


def record_call(journal: Journal, lease: Lease, seq: int, *, cost: float) -> None:
    """Make a call and record its cost."""
    intend(journal, lease, seq, usd=cost)
    record(journal, lease, seq, cost=cost)


def test_sixteen_threads_share_half_a_dollar(journal: Journal) -> None:
    """The worst case of all calls in flight never exceeds the limit, and the accounts add up."""
    meter = Meter()
    paid: list[float] = []
    threads = [
        threading.Thread(
            target=lambda name: paid.append(spend(journal, name, 0.50, 10, meter)),
            args=(f"w{number}",),
        )
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    usd, calls = journal.spent(budget()[0])
    assert (len(paid), usd) == (16, pytest.approx(sum(paid)))
    assert 0.30 < usd <= 0.50
    assert meter.peak <= 0.50 + 1e-9
    accounts = [journal.account(one.attempt_id) for one in journal.find("")]
    assert sum(account.billed_usd or 0.0 for account in accounts) == pytest.approx(usd)
    assert sum(account.calls_billed for account in accounts) == calls


def test_an_unknown_ceiling_is_an_unknown_bill_until_the_cost_is_known(
    journal: Journal, lease: Lease
) -> None:
    """Neither a call in flight nor a lost one of unknown price costs 0, but a free one does."""
    nothing_known, free = Reservation(None, ()), Reservation(0.0, ())
    for seq, reservation in enumerate((nothing_known, free, nothing_known, nothing_known)):
        journal.intend(lease, NewStep("", seq, "model", "d", b"{}"), reservation)
    assert journal.account("a1").billed_usd is None
    record(journal, lease, 0, cost=0.25)
    record(journal, lease, 1, cost=0.0)
    [progress] = journal.progress(EXPERIMENT)
    assert (progress.billed_usd, progress.unbilled_calls) == (None, 2)
    assert (progress.unanswered_calls, progress.unanswered_usd) == (2, None)
    record(journal, lease, 2, cost=0.5)
    record(journal, lease, 3, cost=0.0)
    account = journal.account("a1")
    assert (account.billed_usd, account.credited_usd, account.unpriced_calls) == (0.75, 0.75, 0)
    for seq, cost in ((4, None), (5, 0.0)):
        journal.intend(lease, NewStep("", seq, "model", "d", b"{}"), nothing_known)
        if cost is None:
            record(journal, lease, seq, cost=cost)
    journal.release(lease)
    journal.acquire("a1", "second", 300)
    account, [progress] = journal.account("a1"), journal.progress(EXPERIMENT)
    assert (account.billed_usd, account.credited_usd, account.unpriced_calls) == (None, None, 1)
    assert (progress.unbilled_calls, progress.unanswered_calls, progress.unanswered_usd) == (
        *(2, 1),
        None,
    )


def test_a_call_that_a_dead_worker_left_is_not_in_flight(journal: Journal, lease: Lease) -> None:
    """The next worker has to ask again, and its own call counts from when it asked."""
    journal.intend(lease, NewStep("", 0, "model", "d", b"{}"), Reservation(0.1, ()))
    assert journal.progress(EXPERIMENT)[0].open_call_at is not None
    journal.release(lease)
    later = journal.acquire("a1", "second", 300)
    assert journal.progress(EXPERIMENT)[0].open_call_at is None
    journal.intend(later, NewStep("", 1, "model", "d", b"{}"), Reservation(0.1, ()))
    assert journal.progress(EXPERIMENT)[0].open_call_at is not None
