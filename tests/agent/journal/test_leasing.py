"""A heartbeat renews a lease while its block runs."""

import asyncio

import pytest

from agent.errors import FencedError, LeaseHeld
from agent.journal import Journal
from agent.journal.holding import check_free, hold_lease
from tests.agent.journal.workers import attempt
from tests.servers.postgres import PostgresServer

TTL_S = 1.5


async def test_the_heartbeat_survives_a_database_outage(postgres: PostgresServer) -> None:
    """After a database outage the lease is renewed, and no other worker gets the attempt."""
    journal = Journal.open(postgres.create_database(), patience_s=0.2)
    journal.start(attempt("a1"))
    async with hold_lease(journal, "a1", TTL_S):
        await asyncio.to_thread(postgres.restart, away_s=TTL_S)
        await asyncio.sleep(2 * TTL_S)
        with pytest.raises(LeaseHeld):
            journal.acquire("a1", "other", TTL_S)
    journal.close()


async def test_a_block_that_lost_its_lease_is_cancelled(journal: Journal) -> None:
    """The block is cancelled at the next heartbeat, whatever it is waiting for."""
    journal.start(attempt("a1"))

    async def lose() -> None:
        async with hold_lease(journal, "a1", TTL_S) as lease:
            journal.expire("a1", lease.worker)
            journal.acquire("a1", "other", 300)
            await asyncio.Event().wait()

    with pytest.raises(FencedError, match="a1 is now held by another worker"):
        await lose()
    assert journal.holder("a1") == "other"


async def test_two_tasks_of_a_process_do_not_hold_the_same_lease(journal: Journal) -> None:
    """The journal knows workers only; the second task is refused, and waits until it is free."""
    journal.start(attempt("a1"))
    async with hold_lease(journal, "a1", TTL_S):
        with pytest.raises(LeaseHeld, match="a1 is held by this process"):
            async with hold_lease(journal, "a1", TTL_S):
                raise AssertionError("both hold it")
        with pytest.raises(LeaseHeld):
            await check_free(journal, "a1")
    await check_free(journal, "a1")
    async with hold_lease(journal, "a1", TTL_S) as lease:
        assert lease.epoch == 2
