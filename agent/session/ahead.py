"""Workspaces of branches that open before their branch begins, and close after it has ended.

Opening and closing take as long as many a command, and nothing has to wait for either.
"""

import asyncio
from dataclasses import dataclass, field

from agent.journal import TreeRef
from agent.session.log import StepLog
from agent.session.workbench import BASE, Workbench, Workspaces
from agent.workspaces.ownership import uninterrupted


@dataclass
class Ahead:
    """The workspaces of an attempt that open or close beside its steps."""

    workspaces: Workspaces
    log: StepLog
    main: Workbench = field(init=False)
    """That of the main line, which is probed before the first model call."""
    _opened: dict[str, Workbench] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.main = Workbench("", self.workspaces, self.log)

    async def probe(self) -> None:
        """Open the workspace of the main line, so that nothing is bought without one.

        Do nothing if a recorded or reused step shows that there was one.

        Raises:
            WorkspaceError: the workspace is not available. If it is `Unfit`, it never will be.
        """
        if not (self.log.recorded or self.log.reuses):
            await self.main.probe()

    def open(self, name: str) -> None:
        """Begin to open the workspace of a branch at the base commit.

        Do nothing if its steps may be answered without a workspace.
        """
        is_recorded = any(step.bench == name for step in self.log.recorded)
        if name not in self._opened and not is_recorded and not self.log.reuses:
            self._opened[name] = Workbench(name, self.workspaces, self.log)
            self._opened[name].open()

    def bench(self, name: str, tree: TreeRef) -> Workbench:
        """Return the workspace of a new branch from `tree`: one opened ahead, or a new one."""
        opened = self._opened.pop(name, None) if tree == BASE else None
        return opened or Workbench(name, self.workspaces, self.log, tree)

    def close(self, bench: Workbench) -> None:
        """Begin to close the workspace of a branch that has ended."""
        task = asyncio.create_task(bench.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def end(self) -> None:
        """Close the attempt's own workspace and those whose branch did not begin.

        Wait until all workspaces are closed.
        """
        for bench in (self.main, *self._opened.values()):
            self.close(bench)
        self._opened.clear()
        await uninterrupted(_all_done(*self._closing))


async def _all_done(*tasks: asyncio.Task[None]) -> None:
    await asyncio.gather(*tasks)
