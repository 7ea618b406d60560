"""Shards that share the cells of a queue."""

import asyncio
from pathlib import Path

import pytest

from agent.journal import Journal
from agent.workspaces import ownership
from eval.instances import load
from flows.experiments import cell_queue, cells
from flows.experiments.cell_queue import CellQueue, ShardPart, Share, open_queue
from flows.experiments.cells import Cell, Place
from flows.experiments.keys import attempt_id_of
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
    journal.queue(RUN).add([attempt_id_of(cell) for cell in planned])
    return planned


async def take_all(source: CellQueue) -> list[Share]:
    """Take all that a shard can take."""
    found = []
    while share := await source.take():
        found.append(share)
    return found


async def test_each_shard_begins_at_its_offset_and_steals(
    journal: Journal, filled: list[Cell]
) -> None:
    """A share names the cells in between that others took: they need no image here."""
    first, second = ShardPart(RUN, 1, 2), ShardPart(RUN, 2, 2)
    async with (
        open_queue(journal, first, "a", filled) as one,
        open_queue(journal, second, "b", filled) as other,
    ):
        assert other.cells == [*filled[4:], *filled[:4]]
        assert await one.take() == Share(filled[0])
        assert await one.take() == Share(filled[1])
        shares = await take_all(other)
        assert [share.cell for share in shares] == [*filled[4:], *filled[2:4]]
        passed = {share.cell.label: share.passed for share in shares if share.passed}
        assert passed == {filled[2].label: (filled[0], filled[1])}
        assert await one.take() is None


async def test_cells_that_have_not_ended_are_free_for_others(
    journal: Journal, filled: list[Cell]
) -> None:
    """A cell that is given back is free at once, and so are the cells of a shard that ends."""
    async with open_queue(journal, ShardPart(RUN), "b", filled) as other:
        async with open_queue(journal, ShardPart(RUN), "a", filled) as one:
            assert len(await take_all(one)) == 8
            await one.end(filled[5], "interrupted", "")
            assert await take_all(other) == [Share(filled[5], tuple(filled[:5]))]
        again = await take_all(other)
        assert [share.cell for share in again] == [*filled[:5], *filled[6:]]


async def test_the_cells_of_a_dead_process_are_taken_over(
    journal: Journal, filled: list[Cell]
) -> None:
    """On the same machine, before its lease expires."""
    journal.offer("dead")
    journal.acquire("dead", f"{ownership.owner()}/1-1", 300)
    assert journal.queue(RUN).take("dead") is not None
    async with open_queue(journal, ShardPart(RUN), "a", filled) as one:
        assert len(await take_all(one)) == 7
        assert await one.wait()
        assert await one.take() == Share(filled[0])
    assert journal.lapsed(["dead", "a"]) == {"dead"}


async def test_a_shard_waits_as_long_as_it_has_cells(
    journal: Journal, filled: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take cells of others that are freed meanwhile. The end of its own ends the wait at
    once, and after the last one it leaves the cells of living shards to them."""
    monkeypatch.setattr(cell_queue, "POLL_S", 0.05)
    hold_one(journal, 300)
    async with open_queue(journal, ShardPart(RUN), "a", filled) as one:
        shares = await take_all(one)
        for share in shares[2:]:
            await one.end(share.cell, "done", "resolved")
        assert await one.wait()
        await one.end(shares[1].cell, "interrupted", "")
        assert await take_all(one) == [Share(shares[1].cell)]
        await one.end(shares[1].cell, "done", "resolved")
        monkeypatch.setattr(cell_queue, "POLL_S", 300.0)
        waiting = asyncio.create_task(one.wait())
        await asyncio.sleep(0)
        await one.end(shares[0].cell, "done", "resolved")
        async with asyncio.timeout(30):
            await waiting
        assert await one.take() is None
        assert not await one.wait()
    assert journal.queue(RUN).count_unended() == 1


def hold_one(journal: Journal, ttl_s: float) -> None:
    """Have a shard on another machine take the first cell."""
    journal.offer("elsewhere")
    journal.acquire("elsewhere", "elsewhere/1-1", ttl_s)
    assert journal.queue(RUN).take("elsewhere") is not None


async def test_a_cell_whose_process_died_twice_ends_as_infrastructure(
    journal: Journal, filled: list[Cell]
) -> None:
    """A shard has one lost cell at a time, so that cells that were taken with it are not blamed."""
    queue = journal.queue(RUN)
    for holder in ("first", "second"):
        journal.offer(holder)
        journal.acquire(holder, f"{ownership.owner()}/1-1", 300)
        assert queue.take(holder) is not None
        assert queue.take(holder, fresh=True) is not None
        journal.expire(holder, f"{ownership.owner()}/1-1")
    async with open_queue(journal, ShardPart(RUN), "a", filled) as one:
        shares = await take_all(one)
        assert [share.cell for share in shares] == [filled[1], *filled[3:]]
        await one.end(filled[1], "done", "resolved")
        assert await take_all(one) == [Share(filled[2])]
    [dead, _] = sorted(queue.list_ended(), key=lambda ended: ended.name != attempt_id_of(filled[0]))
    why = "infrastructure: its process died twice"
    assert dead.name == attempt_id_of(filled[0])
    assert (dead.ended_as, dead.result) == ("infrastructure", why)
