"""The cells of one agent: their reads, their writes, and the stale ones.

The state before a cell is what the cells before it left, in their order. So a replay of the stale
cells leaves what a run of all cells would leave.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from agent.cells.running import NOT_RUN, CellRecord, Kernel, Look, Maker, is_unstored
from agent.graph import ExecutionStateGraph, State
from agent.session.session import Session
from agent.tools.tool import Refused

_FILE = "file:"
_RUNS_PER_CELL = 5
"""Runs in one use of a tool, on average. A crash or a cell that deletes the store adds some."""


@dataclass(eq=False)
class NotebookCell:
    """A piece of Python, and its last run."""

    number: int
    code: str
    state: State = "pending"
    record: CellRecord = NOT_RUN
    ran: str = ""
    """The code of that run."""


@dataclass(frozen=True)
class Rerun:
    """A run of a cell, and the record of the run before it."""

    cell: NotebookCell
    before: CellRecord

    @property
    def is_same(self) -> bool:
        """True if it printed the same, and failed or not as before."""
        after = self.cell.record
        return after.output == self.before.output and after.error == self.before.error


@dataclass(frozen=True)
class UsedVariable:
    """A variable that a cell read, and the cell that wrote it."""

    name: str
    writer: NotebookCell


class Notebook:
    """Cells by number, from 1 on, in the order in which they run."""

    def __init__(self, kernel: Kernel, *, keeps_files: bool = True) -> None:
        """Run cells in a kernel. With `keeps_files` False, undo changes of files after each."""
        self.cells: list[NotebookCell] = []
        self.turn = asyncio.Lock()
        """Held by the tool that is in use. Several of one reply take turns in the order asked."""
        self._kernel = kernel
        self._keeps_files = keeps_files

    def cell(self, number: int) -> NotebookCell:
        """Return a cell.

        Raises:
            Refused: there is no such cell.
        """
        if not 1 <= number <= len(self.cells):
            count = len(self.cells)
            numbers = f"the cells are 1 to {count}" if count else "there are none yet"
            raise Refused(f"there is no cell {number}: {numbers}")
        return self.cells[number - 1]

    async def run(self, session: Session, code: str) -> list[Rerun]:
        """Add a cell and run it.

        Return its run, after the runs of cells whose variables had been lost.
        """
        await self.look(session)
        cell = NotebookCell(len(self.cells) + 1, code)
        self.cells.append(cell)
        done: list[Rerun] = []
        await self._run(session, cell, done)
        if cell.record.programs:
            await self.look(session)
        return _once(done)

    def edit(self, number: int, code: str) -> list[NotebookCell]:
        """Replace the code of a cell. Return the cells that are stale then.

        Raises:
            Refused: there is no such cell, or it has this code.
        """
        cell = self.cell(number)
        if cell.code == code:
            raise Refused(f"cell {number} has exactly this code already")
        cell.code = code
        self._mark([cell])
        return self.stale

    async def replay(self, session: Session, wanted: int | None) -> list[Rerun]:
        """Run the stale cells in order, until one fails. With `wanted`, only what it needs.

        Raises:
            Refused: there is no such cell.
        """
        await self.look(session)
        needed = {cell.number for cell in self.cells}
        if wanted is not None:
            ancestors = self.graph().get_ancestors(str(self.cell(wanted).number))
            needed = {wanted, *map(int, ancestors)}
        done: list[Rerun] = []
        for cell in self.cells:
            if cell.number in needed and cell.state in ("stale", "pending"):
                await self._run(session, cell, done)
                if cell.record.failed:
                    break
                if cell.record.programs:  # nothing saw the files that they wrote
                    await self.look(session, behind=cell.number)
        return _once(done)

    async def look(self, session: Session, *, behind: int = 0) -> None:
        """Mark the cells behind one as stale whose files have changed."""
        files = sorted({path for cell in self.cells for path in cell.record.files_read})
        programs = any(cell.record.programs for cell in self.cells)
        if files or programs:
            look = await self._kernel.look(session, files, programs=programs)
            self._mark(cell for cell in self._find_changed_cells(look) if cell.number > behind)

    @property
    def stale(self) -> list[NotebookCell]:
        """The cells that have to run again."""
        return [cell for cell in self.cells if cell.state == "stale"]

    def get_used_variables(self, cell: NotebookCell) -> list[UsedVariable]:
        """Return the variables that a cell read, with their writers."""
        places = cell.record.reads.items()
        read = [name for name, place in places if place is not None]
        return [
            UsedVariable(name, writer)
            for name in sorted(read)
            if (writer := self.writer(name, cell))
        ]

    def writer(self, name: str, before: NotebookCell) -> NotebookCell | None:
        """Return the last cell before `before` that wrote a variable."""
        earlier = reversed(self.cells[: before.number - 1])
        return next((cell for cell in earlier if name in cell.record.writes), None)

    def before(self, number: int) -> dict[str, str]:
        """Return the places of the variables that the cells before one left."""
        places: dict[str, str | None] = {}
        for cell in self.cells[: number - 1]:
            places |= cell.record.writes
        return {name: place for name, place in places.items() if place is not None}

    def get_unstored_variables(self, number: int) -> dict[str, int]:
        """Return the variables before a cell that cannot be stored, with their last writers."""
        makers: dict[str, int] = {}
        for cell in self.cells[: number - 1]:
            for name, place in cell.record.writes.items():
                makers.pop(name, None)
                if is_unstored(place):
                    makers[name] = cell.number
        return makers

    def _makers(self, numbers: Iterable[int]) -> list[Maker]:
        """Return the cells that can make again what cannot be stored, with all that they need."""
        makers: dict[int, Maker] = {}
        todo = set(numbers)
        while todo:
            cell = self.cell(todo.pop())
            read = {name: place for name, place in cell.record.reads.items() if place is not None}
            unstored = {
                n: maker
                for n, maker in self.get_unstored_variables(cell.number).items()
                if n in read
            }
            makers[cell.number] = Maker(
                cell=cell.number, code=cell.ran, variables=read, unstored=unstored
            )
            todo |= set(unstored.values()) - makers.keys()
        return [makers[number] for number in sorted(makers)]

    def graph(self) -> ExecutionStateGraph:
        """Return the graph of the cells, by the variables and files of their last runs."""
        graph = ExecutionStateGraph()
        writers: dict[str, str] = {}
        for cell in self.cells:
            step, record = str(cell.number), cell.record
            reads = [*record.reads, *(f"{_FILE}{path}" for path in record.files_read)]
            writes = [*record.writes, *(f"{_FILE}{path}" for path in record.files_written)]
            graph.add_step(step, reads=reads, writes=writes, state=cell.state, label=cell.code)
            for name in reads:
                if name in writers:
                    graph.add_edge(writers[name], step, {name})
            writers |= dict.fromkeys(writes, step)
        return graph

    async def _run(self, session: Session, cell: NotebookCell, done: list[Rerun]) -> None:
        """Run a cell, after those whose variables it needs and the store has lost."""
        before, is_lost = cell.record, cell.state in ("executed", "failed")
        keeps_files = self._keeps_files and not is_lost
        rerun = Rerun(cell, before)
        record = await self._ran(session, cell, keeps_files=keeps_files)
        while record.lost or record.lost_by:
            again = {self.writer(name, cell) for name in record.lost}
            for maker, names in record.lost_by.items():
                again |= {self.writer(name, self.cell(maker)) for name in names}
            again -= {None}
            if not again or len(done) >= _RUNS_PER_CELL * len(self.cells):
                record = CellRecord(ended="the variables of the cells before it are lost at once")
                break
            for earlier in self.cells:
                if earlier in again:
                    await self._run(session, earlier, done)
            record = await self._ran(session, cell, keeps_files=keeps_files)
        if is_lost:  # its files are as they were
            record = record.model_copy(update={"files_written": before.files_written})
        self._settle(cell, record, is_lost=is_lost)
        done.append(rerun)

    async def _ran(self, session: Session, cell: NotebookCell, *, keeps_files: bool) -> CellRecord:
        cell.ran = cell.code
        unstored = self.get_unstored_variables(cell.number)
        return await self._kernel.run(
            session,
            cell=cell.number,
            code=cell.code,
            variables=self.before(cell.number),
            keeps_files=keeps_files,
            unstored=unstored,
            makers=[maker.model_dump() for maker in self._makers(unstored.values())],
        )

    def _settle(self, cell: NotebookCell, record: CellRecord, *, is_lost: bool) -> None:
        """Take the record of a cell, and mark the later cells whose variables it changed.

        With `is_lost`, it ran only to leave again what it had left.
        """
        cell.record = record
        cell.state = "failed" if record.failed else "executed"
        # Mark later cells that would read other values than in their last run.
        changed = []
        places: dict[str, str | None] = {}
        for other in self.cells:
            reads = other.record.reads.items()
            if other.number > cell.number and any(places.get(n) != place for n, place in reads):
                changed.append(other)
            places |= other.record.writes
        self._mark(changed)
        if not is_lost:
            self._mark(self._find_readers(cell))
        sources = self.graph().get_ancestors(str(cell.number))
        if any(self.cell(int(number)).state == "stale" for number in sources):
            cell.state = "stale"

    def _find_readers(self, cell: NotebookCell) -> list[NotebookCell]:
        """Return the later cells that read unstorable values of a cell.

        The place of such a value is the same after every change, as of a generator after `next`.
        """
        names = [name for name, place in cell.record.writes.items() if is_unstored(place)]
        return [
            reader
            for reader in self.cells[cell.number :]
            if any(n in reader.record.reads and self.writer(n, reader) is cell for n in names)
        ]

    def _find_changed_cells(self, look: Look) -> list[NotebookCell]:
        """Return the cells whose files are not what the cells left."""
        written: dict[str, NotebookCell] = {}
        for cell in self.cells:
            written |= dict.fromkeys(cell.record.files_written, cell)
        numbers = {cell.number for cell in self.cells if cell.record.programs}
        numbers = {number for number in numbers if self.cell(number).record.tree != look.tree}
        for cell in self.cells:
            for path, digest in cell.record.files_read.items():
                now, writer = look.files.get(path), written.get(path)
                if now == digest:
                    continue
                expected = writer.record.files_written[path] if writer else None
                if writer is None or writer.number < cell.number or now != expected:
                    numbers.add(cell.number)
                if writer is not None and now is None and expected is not None:
                    numbers.add(writer.number)  # a file that git ignores, lost with its container
        return [self.cell(number) for number in sorted(numbers)]

    def _mark(self, cells: Iterable[NotebookCell]) -> None:
        """Mark cells and all that depends on them as stale."""
        graph = self.graph()
        graph.mark_stale([str(cell.number) for cell in cells])
        for cell in self.cells:
            cell.state = graph.get_node(str(cell.number)).state


def _once(done: list[Rerun]) -> list[Rerun]:
    """Return the first run of each cell, in the order of the cells.

    A cell that runs twice leaves the same: what it had left was lost in between.
    """
    first = {run.cell.number: run for run in reversed(done)}
    return [first[number] for number in sorted(first)]
