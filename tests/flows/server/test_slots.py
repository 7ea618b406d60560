"""The limit on cells over all programs of a server, on a server with one slot."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prefect.client.orchestration import get_client

from agent.errors import Interrupted
from flows.experiments.stop import Stop
from flows.server import slots
from flows.server.settings import CELLS
from flows.server.slots import cell_slots

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


async def until_free() -> None:
    async with asyncio.timeout(60):
        while await taken():
            await asyncio.sleep(0.05)


async def test_consecutive_cells_share_a_slot() -> None:
    """The shard keeps the slot between them, and releases it at the end."""
    async with cell_slots(Stop()) as one:
        for _ in range(3):
            async with one():
                assert await taken() == 1
        assert await taken() == 1
    assert await taken() == 0


async def test_a_slot_without_a_cell_is_free_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard releases it after a moment, while it waits for other shards."""
    monkeypatch.setattr(slots, "IDLE_S", 0.01)
    async with cell_slots(Stop()) as one, cell_slots(Stop()) as another:
        async with one():
            pass
        await until_free()
        async with another():
            assert await taken() == 1


async def test_a_shard_releases_its_slot_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs get a turn although the shard has more cells."""
    monkeypatch.setattr(slots, "TURN_S", 0.0)
    async with cell_slots(Stop()) as one:
        async with one():
            assert await taken() == 1
        assert await taken() == 0


async def test_a_cell_waits_for_a_slot_until_a_stop() -> None:
    """A cell without a slot does not begin, and takes no slot later."""
    stop = Stop()
    async with cell_slots(Stop()) as one, cell_slots(stop) as other:
        async with one():

            async def wait() -> None:
                async with other():
                    raise AssertionError("there was no slot")

            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            stop.requested = True
            with pytest.raises(Interrupted):
                await waiting
        assert await taken() == 1  # that of the first, which it keeps for a moment
    assert await taken() == 0
