"""The limit on cells over all programs of a server, on a server with one slot."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prefect.client.orchestration import get_client

from agent.errors import Interrupted
from flows.experiments.stop import Stop
from flows.server.settings import CELLS
from flows.server.slots import cell_slot

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture(autouse=True)
async def limit() -> AsyncIterator[None]:
    """Limit the server to one cell for the length of a test."""
    async with get_client() as client:
        await client.upsert_global_concurrency_limit_by_name(CELLS, 1)
        yield
        await client.delete_global_concurrency_limit_by_name(CELLS)


async def taken() -> int:
    """Return the number of slots in use on the server."""
    async with get_client() as client:
        return (await client.read_global_concurrency_limit_by_name(CELLS)).active_slots


async def test_a_cell_waits_for_a_slot_until_a_stop() -> None:
    """A cell without a slot does not begin, and takes no slot later."""
    stop = Stop()

    async def wait() -> None:
        async with cell_slot(stop):
            raise AssertionError("there was no slot")

    async with cell_slot(Stop()):
        assert await taken() == 1
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        stop.requested = True
        with pytest.raises(Interrupted):
            await waiting
        assert await taken() == 1
    assert await taken() == 0
