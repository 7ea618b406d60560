"""A notebook is what an agent tried, with what depends on what. It outlives its interpreters."""

from pathlib import Path

from agent.cells.notebook import Notebook
from agent.cells.running import Kernel
from agent.tools import Protection, ToolSettings
from tests.walkthrough.one_attempt import OneAttempt, PaidModel

CELLS = ["text = open('notes.txt').read()", "words = text.split()", "words", "1 + 1"]


async def test_a_change_makes_exactly_what_depends_on_it_stale(tmp_path: Path) -> None:
    """Variables and files are edges. A replay runs the stale cells in order, and no others."""
    async with OneAttempt(tmp_path).session(PaidModel()) as session:
        notebook = Notebook(Kernel(ToolSettings(), Protection()))
        for number, code in enumerate(CELLS):
            await notebook.run(session.scope(f"cell-{number}"), code)
        notebook.edit(2, "words = text.upper().split()")
        assert [cell.number for cell in notebook.stale] == [2, 3]
        await session.run("echo more >>notes.txt", timeout_s=60)
        again = await notebook.replay(session.scope("replay"), wanted=None)
        assert [run.cell.number for run in again] == [1, 2, 3]
        assert again[-1].cell.record.output == "['BASE', 'MORE']\n"


async def test_a_lost_store_costs_only_what_is_needed(tmp_path: Path) -> None:
    """Each run is a step of the journal. Stored values are only a cache of what runs left."""
    async with OneAttempt(tmp_path).session(PaidModel()) as session:
        notebook = Notebook(Kernel(ToolSettings(), Protection()))
        for number, code in enumerate(CELLS):
            await notebook.run(session.scope(f"cell-{number}"), code)
        await session.run("rm -r $TMPDIR/durabench-cells", timeout_s=60)
        runs = await notebook.run(session.scope("last"), "len(words)")
        assert [run.cell.number for run in runs] == [1, 2, 5]
