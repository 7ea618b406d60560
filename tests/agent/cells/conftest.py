"""A notebook in a real workspace, with tools as a model uses them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.cells.notebook import Notebook
from agent.cells.offering import TOOLS
from agent.cells.running import Kernel
from agent.session.session import Session
from agent.tools import Protection, ToolResult, ToolSettings
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

FILES = {"lib.py": "def double(x):\n    return 2 * x\n", "data.txt": "1 2 3\n"}


class Talk:
    """The tools of one notebook, used one after another."""

    def __init__(self, session: Session, limit_s: float, *, keeps_files: bool = True) -> None:
        self.session = session
        kernel = Kernel(ToolSettings(command_timeout_s=limit_s), Protection())
        self.notebook = Notebook(kernel, keeps_files=keeps_files)
        self._uses = 0

    async def use(self, name: str, **arguments: Any) -> ToolResult:
        """Use a tool in a scope of its own."""
        [tool] = [tool for tool in TOOLS if tool.name == name]
        self._uses += 1
        scope = self.session.scope(f"{name}-{self._uses}")
        return await tool(self.notebook, scope, tool.arguments(**arguments))

    async def run(self, code: str) -> str:
        """Run a cell that has to succeed. Return its result without the first line."""
        result = await self.use("cell_run", code=code)
        assert result.ok, result.output
        return result.output.partition("\n")[2]

    async def fail(self, code: str) -> str:
        """Run a cell that has to fail. Return its result."""
        result = await self.use("cell_run", code=code)
        assert not result.ok, result.output
        return result.output

    async def ran(self, **arguments: Any) -> list[int]:
        """Replay what is stale. Return the numbers of the cells that ran."""
        before = {cell.number: cell.record for cell in self.notebook.cells}
        await self.use("cell_replay", **arguments)
        return [c.number for c in self.notebook.cells if before[c.number] is not c.record]

    async def shell(self, command: str) -> None:
        """Run a command beside the notebook."""
        done = await self.session.run(command, timeout_s=60)
        assert done.exit_code == 0, done.output

    @property
    def stale(self) -> list[int]:
        """The numbers of the stale cells."""
        return [cell.number for cell in self.notebook.stale]


@asynccontextmanager
async def on_host(
    files: Mapping[str, str] = FILES, limit_s: float = 30, *, keeps_files: bool = True
) -> AsyncIterator[Talk]:
    """Open a notebook in a repository of these files on this machine."""
    workspaces = HostWorkspaces(with_files(files))
    async with Session.start(attempt_id="a", models={}, workspaces=workspaces) as session:
        yield Talk(session, limit_s, keeps_files=keeps_files)


@pytest.fixture
async def host() -> AsyncIterator[Talk]:
    """Yield a notebook on this machine."""
    async with on_host() as talk:
        yield talk
