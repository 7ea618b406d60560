"""The heartbeat that renews a lease while its block runs."""

import asyncio

import pytest

from agent.errors import FencedError, LeaseHeld
from agent.journal import Journal
from agent.journal.holding import held
from tests.agent.journal.workers import attempt
from tests.servers.postgres import PostgresServer

TTL_S = 1.5


async def test_a_heart_outlives_its_databases_absence(postgres: PostgresServer) -> None:
    """A lease is renewed again when the database is back, and nobody else gets the attempt."""
    journal = Journal.open(postgres.create_database(), patience_s=0.2)
    journal.start(attempt("a1"))
    async with held(journal, "a1", TTL_S):
        await asyncio.to_thread(postgres.restart, away_s=TTL_S)
        await asyncio.sleep(2 * TTL_S)
        with pytest.raises(LeaseHeld):
            journal.acquire("a1", "other", TTL_S)
    journal.close()


async def test_a_block_that_lost_its_lease_is_cancelled(journal: Journal) -> None:
    """It ends with the loss, at the next beat, whatever it waits for."""
    journal.start(attempt("a1"))

    async def lose() -> None:
        async with held(journal, "a1", TTL_S) as lease:
            journal.expire("a1", lease.worker)
            journal.acquire("a1", "other", 300)
            await asyncio.Event().wait()

    with pytest.raises(FencedError, match="a1 is now held by another worker"):
        await lose()
    assert journal.holder("a1") == "other"
