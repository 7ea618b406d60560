"""Shards that share the cells of a queue."""

import asyncio
from pathlib import Path

import pytest

from agent.errors import LeaseHeld
from agent.journal import Journal
from agent.journal.holding import worker
from agent.workspaces import ownership
from eval.instances import load
from flows.display.errors import UsageError
from flows.experiments import cells, shares
from flows.experiments.cells import Cell, Place
from flows.experiments.shares import Listed, Queued, ShardPart, Share, cell_name, opened
from flows.experiments.stop import Stop
from tests.flows.conftest import trial

RUN = "run"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.open(f"sqlite:///{tmp_path}/journal.sqlite")


@pytest.fixture
def planned() -> list[Cell]:
    """Eight cells: two instances and four arms."""
    return cells.plan(trial(), load("bundled")[:2], Place("host"))


@pytest.fixture
def filled(journal: Journal, planned: list[Cell]) -> list[Cell]:
    """The same cells, in the queue of a run."""
    journal.queue(RUN).add([cell_name(cell) for cell in planned])
    return planned


async def taken(source: Queued) -> list[Share]:
    """Take all that a shard can take."""
    found = []
    while share := await source.take():
        found.append(share)
    return found


async def test_a_list_is_taken_in_order(planned: list[Cell]) -> None:
    """A list has nothing to wait for, and it reports the end of a cell."""
    told = []

    async def on_end(cell: Cell, end: str, result: str) -> None:
        told.append((cell, end, result))

    source = Listed(planned[:2], on_end)
    assert [await source.take() for _ in range(3)] == [Share(planned[0]), Share(planned[1]), None]
    assert not await source.wait()
    await source.end(planned[0], "done", "resolved")
    assert told == [(planned[0], "done", "resolved")]


async def test_a_list_drops_groups_that_nobody_has_begun(planned: list[Cell]) -> None:
    """The cells of the other instance go on."""

    async def on_end(cell: Cell, end: str, result: str) -> None: ...

    source = Listed(planned, on_end)
    first = await source.take()
    groups = [planned[:4], planned[4:]]
    assert first == Share(planned[0])
    assert source.withdraw(groups) == 4
    assert [await source.take() for _ in range(4)] == [*map(Share, planned[1:4]), None]
    assert source.withdraw(groups) == 0


async def test_each_shard_begins_at_its_offset_and_steals(
    journal: Journal, filled: list[Cell]
) -> None:
    """A share names the cells in between that others took: they need no image here."""
    first, second = ShardPart(RUN, 0, 2), ShardPart(RUN, 1, 2)
    async with (
        opened(journal, first, "a", filled, Stop()) as one,
        opened(journal, second, "b", filled, Stop()) as other,
    ):
        assert other.cells == [*filled[4:], *filled[:4]]
        assert await one.take() == Share(filled[0])
        assert await one.take() == Share(filled[1])
        shares = await taken(other)
        assert [share.cell for share in shares] == [*filled[4:], *filled[2:4]]
        passed = {share.cell.label: share.passed for share in shares if share.passed}
        assert passed == {filled[2].label: (filled[0], filled[1])}
        assert await one.take() is None


async def test_the_offset_is_among_the_cells_that_are_left(
    journal: Journal, filled: list[Cell]
) -> None:
    """A replaced shard begins among open cells."""
    async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()) as one:
        for _ in range(4):
            share = await one.take()
            assert share is not None
            await one.end(share.cell, "done", "resolved")
    async with opened(journal, ShardPart(RUN, 1, 2), "b", filled, Stop()) as other:
        assert other.cells == [*filled[6:], *filled[4:6]]
        assert await other.take() == Share(filled[6])


async def test_cells_that_have_not_ended_are_free_for_others(
    journal: Journal, filled: list[Cell]
) -> None:
    """A cell that is given back is free at once, and so are the cells of a shard that ends."""
    async with opened(journal, ShardPart(RUN, 0, 1), "b", filled, Stop()) as other:
        async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()) as one:
            assert len(await taken(one)) == 8
            await one.give_back(filled[5])
            assert await taken(other) == [Share(filled[5], tuple(filled[:5]))]
        again = await taken(other)
        assert [share.cell for share in again] == [*filled[:5], *filled[6:]]
        assert not any(share.was_lost for share in again)


async def test_the_cells_of_a_dead_process_are_taken_over(
    journal: Journal, filled: list[Cell]
) -> None:
    """On the same machine, before its lease expires."""
    journal.offer("dead")
    journal.acquire("dead", f"{ownership.owner()}/1-1", 300)
    assert journal.queue(RUN).take("dead") is not None
    async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()) as one:
        assert len(await taken(one)) == 7
        assert await one.wait()
        assert await one.take() == Share(filled[0], was_lost=True)
    assert journal.lapsed(["dead", "a"]) == {"dead"}


async def test_a_shard_waits_as_long_as_it_has_cells(
    journal: Journal, filled: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take cells of others that are freed meanwhile. The end of its own ends the wait at
    once, and after the last one it leaves the cells of living shards to them."""
    monkeypatch.setattr(shares, "POLL_S", 0.05)
    hold_one(journal, 300)
    async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()) as one:
        held = await taken(one)
        for share in held[2:]:
            await one.end(share.cell, "done", "resolved")
        assert await one.wait()
        await one.give_back(held[1].cell)
        assert await taken(one) == [Share(held[1].cell)]
        await one.end(held[1].cell, "done", "resolved")
        monkeypatch.setattr(shares, "POLL_S", 300.0)
        waiting = asyncio.create_task(one.wait())
        await asyncio.sleep(0)
        await one.end(held[0].cell, "done", "resolved")
        async with asyncio.timeout(30):
            await waiting
        assert await one.take() is None
        assert not await one.wait()
    assert journal.queue(RUN).left() == 1


async def test_a_shard_without_cells_waits_for_those_of_a_silent_one(
    journal: Journal, filled: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that was not renewed in time will expire soon, and then its cells are free."""
    monkeypatch.setattr(shares, "POLL_S", 0.05)
    hold_one(journal, 10)
    async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()) as one:
        for share in await taken(one):
            await one.end(share.cell, "done", "resolved")
        assert not one.expects_lost
        assert await one.wait()
        assert one.expects_lost
        journal.expire("elsewhere", "elsewhere/1-1")
        assert await one.take() == Share(filled[0], was_lost=True)


def hold_one(journal: Journal, ttl_s: float) -> None:
    """Have a shard on another machine take the first cell."""
    journal.offer("elsewhere")
    journal.acquire("elsewhere", "elsewhere/1-1", ttl_s)
    assert journal.queue(RUN).take("elsewhere") is not None


async def test_a_shard_of_one_cell_takes_one(journal: Journal, filled: list[Cell]) -> None:
    """It waits for no other."""
    async with opened(journal, ShardPart(RUN, 0, 1, most=1), "a", filled, Stop()) as one:
        assert len(await taken(one)) == 1
        assert not await one.wait()


async def test_a_shard_is_one_process(journal: Journal, filled: list[Cell]) -> None:
    """A second process with the same lease takes nothing."""
    journal.offer("a")
    journal.acquire("a", "elsewhere/1-1", 300)
    with pytest.raises(LeaseHeld):
        async with opened(journal, ShardPart(RUN, 0, 1), "a", filled, Stop()):
            pass
    assert worker() not in journal.holders(["a"]).values()


async def test_another_dataset_is_refused(journal: Journal, filled: list[Cell]) -> None:
    """A worker without the row of a cell runs no other cell instead."""
    with pytest.raises(UsageError, match="this worker's dataset lacks the cell of attempt"):
        async with opened(journal, ShardPart(RUN, 0, 1), "a", filled[1:], Stop()):
            pass
