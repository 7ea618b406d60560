"""The limits on cells over all programs of a server, on a server with one slot."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prefect.client.orchestration import get_client

from agent.errors import Interrupted
from eval import instances
from flows.experiments.cells import Cell, Place
from flows.experiments.stop import Stop
from flows.server import slots
from flows.server.settings import CELLS
from flows.server.slots import CellLimits, hold_slots, share_slots
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

INSTANCE = instances.load("bundled", "test")[0]
TRIAL, OTHER = trial(), trial(name="other", arms=[{"name": "gold", "agent": "gold"}], primary=None)
CELL = Cell(TRIAL, TRIAL.arm("able"), INSTANCE, 0, Place("host"))
WITHOUT = Cell(OTHER, OTHER.arm("gold"), INSTANCE, 0, Place("host"))
"""A cell of another experiment and arm, without a model."""


@pytest.fixture(autouse=True)
async def limit() -> AsyncIterator[None]:
    """Limit the server to one cell for the length of a test."""
    async with get_client() as client:
        await client.upsert_global_concurrency_limit_by_name(CELLS, 1)
        yield
        await client.delete_global_concurrency_limit_by_name(CELLS)


async def taken(name: str = CELLS) -> int:
    """Return the number of slots of a limit in use on the server."""
    async with get_client() as client:
        return (await client.read_global_concurrency_limit_by_name(name)).active_slots


async def test_a_cell_waits_for_a_slot_until_a_stop() -> None:
    """A cell without a slot does not begin, and takes no slot later."""
    stop = Stop()

    async def wait() -> None:
        async with hold_slots([CELLS], stop):
            raise AssertionError("there was no slot")

    async with hold_slots([CELLS], Stop()):
        assert await taken() == 1
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        stop.requested = True
        with pytest.raises(Interrupted):
            await waiting
        assert await taken() == 1
    assert await taken() == 0


async def test_consecutive_cells_share_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard keeps the slot between them, and releases it at the end of its turn and its own."""
    async with share_slots(await CellLimits.read(CELLS), Stop()) as hold:
        for _ in range(3):
            async with hold(CELL):
                assert await taken() == 1
        assert await taken() == 1
        monkeypatch.setattr(slots, "TURN_S", 0.0)
        async with hold(CELL):
            assert await taken() == 1
        assert await taken() == 0
    assert await taken() == 0


async def test_a_slot_without_a_cell_is_free_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard releases it after a moment, while it waits for other shards."""
    monkeypatch.setattr(slots, "IDLE_S", 0.01)
    async with share_slots(await CellLimits.read(CELLS), Stop()) as hold:
        async with hold(CELL):
            pass
        async with asyncio.timeout(60):
            while await taken():
                await asyncio.sleep(0.05)
        async with hold_slots([CELLS], Stop()):
            assert await taken() == 1


@pytest.mark.parametrize("tag", ["experiment:trial", "arm:able", "model:simulated-skill-1"])
async def test_a_limit_on_a_tag_bounds_its_cells(tag: str) -> None:
    """An operator limits a tag of cells as for task runs. Cells without the tag are not bounded."""
    async with get_client() as client:
        await client.create_concurrency_limit(tag, 1)
        try:
            limits = await CellLimits.read()
            async with share_slots(limits, Stop()) as hold, hold(CELL):
                assert await taken(f"tag:{tag}") == 1
                async with asyncio.timeout(30), hold(WITHOUT):
                    assert await taken(f"tag:{tag}") == 1
            assert await taken(f"tag:{tag}") == 0
        finally:
            await client.delete_concurrency_limit_by_tag(tag)
