"""The kernel's program in this process, which runs hundreds of cells a second. It sees no files."""

import contextlib
import io
import sys
import types
from pathlib import Path
from typing import Any

from agent.cells import running
from agent.cells.running import CellRecord
from agent.session.session import Session
from agent.tools import Protection, ToolSettings


def program() -> Any:
    """Return the program as a module."""
    if "durabench_cells" not in sys.modules:
        made = sys.modules["durabench_cells"] = types.ModuleType("durabench_cells")
        exec(compile(running._kernel(), "<kernel>", "exec"), vars(made))
    return sys.modules["durabench_cells"]


class InProcess(running.Kernel):
    """Runs cells without a workspace, with a store in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(ToolSettings(), Protection())
        self.folder = folder
        self.ran: list[int] = []

    async def run(self, session: Session | None, **given: Any) -> CellRecord:
        unwatched = program().WatchedFiles("/")
        makers = program().Makers(given["makers"], _unseen, unwatched)
        heap = program().Heap(
            str(self.folder), given["variables"], given["cell"], given["unstored"], makers
        )
        name = f"<cell {given['cell']}>"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            error = program().run(heap, given["code"], name, running.needs(given["code"]))
        if heap.lost or makers.lost:
            return CellRecord(lost=sorted(set(heap.lost)), lost_by=makers.lost)
        self.ran.append(given["cell"])
        told = None if error is None else program().describe_error(error, name, given["code"])
        writes = heap.writes()
        return CellRecord.model_validate(
            {"output": printed.getvalue(), "error": told, "reads": heap.reads, "writes": writes}
        )


def _unseen(*given: Any) -> Any:
    """Run a cell for another one. Its output goes nowhere."""
    with contextlib.redirect_stdout(io.StringIO()):
        return program().run(*given)
