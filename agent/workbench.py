"""The workspace of one line of work, opened when it is needed and put where the record ends."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

from agent.steplog import StepLog
from agent.workspaces.protocol import Workspace

BASE = ""
"""The work tree of the base commit, among the trees that a log keeps."""


class Workspaces(Protocol):
    """Opens the workspaces of one attempt."""

    @property
    def root(self) -> str:
        """Absolute path of the repository in all of them, as commands see it."""
        ...

    def open(self, name: str, *, goes_on: bool) -> AbstractAsyncContextManager[Workspace]:
        """A workspace at the base commit, gone at the end; `name` tells those of an attempt apart.

        Where it `goes_on`, one that a dead process left may be taken over, at any tree.

        Raises:
            WorkspaceError: it cannot be had.
        """
        ...


class Workbench:
    """A workspace and the work tree that the recorded steps say it holds."""

    def __init__(self, name: str, workspaces: Workspaces, log: StepLog, tree: str = BASE) -> None:
        """`tree`: where the line of work begins, as the log keeps it."""
        self.tree = tree
        """The work tree after the last step, as the log keeps it."""
        self._name = name
        self._workspaces = workspaces
        self._log = log
        self._workspace: Workspace | None = None
        self._tree_id = ""
        self._held = BASE
        self._recorded = tree
        self._lifetime = AsyncExitStack()

    def replayed(self, tree: str) -> None:
        """A recorded step left that work tree."""
        self.tree = self._recorded = tree

    async def ready(self) -> Workspace:
        """The workspace, at that work tree.

        Raises:
            WorkspaceError: it cannot be had, or not at that tree.
        """
        workspace = self._workspace
        if workspace is None:
            opened = self._workspaces.open(self._name, goes_on=self.tree != BASE)
            workspace = self._workspace = await self._lifetime.enter_async_context(opened)
            self._held = BASE
            self._tree_id = await workspace.tree() if self.tree == BASE else ""
        if self._held != self.tree:
            await self.put(self.tree)
        return workspace

    async def put(self, tree: str) -> None:
        """Make the open workspace hold a tree that the log keeps.

        Raises:
            WorkspaceError: it does not come out as that tree.
        """
        assert self._workspace is not None
        checkpoint = await self._log.kept(tree) if tree != BASE else None
        await self._workspace.restore(checkpoint)
        self._tree_id = checkpoint.tree if checkpoint else await self._workspace.tree()
        self.tree = self._held = tree

    async def changed(self) -> str | None:
        """Keep the work tree if it is not what the last step left; None if it is."""
        assert self._workspace is not None
        tree_id = await self._workspace.tree()
        if tree_id != self._tree_id:
            self._tree_id = tree_id
            self.tree = self._held = await self._log.keep(await self._workspace.checkpoint())
        before, self._recorded = self._recorded, self.tree
        return self.tree if self.tree != before else None

    async def close(self) -> None:
        """Give the workspace back; the next use opens another."""
        self._workspace = None
        await self._lifetime.aclose()
