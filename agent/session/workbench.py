"""The workspace of one line of work, opened when it is needed and put where the record ends."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

from agent.session.log import StepLog
from agent.workspaces.protocol import Workspace

BASE = ""
"""The work tree of the base commit, among the trees that a log keeps."""


class Workspaces(Protocol):
    """Opens the workspaces of one attempt."""

    @property
    def root(self) -> str:
        """Absolute path of the repository in all of them, as commands see it."""
        ...

    def open(
        self, name: str, *, image: str, goes_on: bool
    ) -> AbstractAsyncContextManager[Workspace]:
        """A workspace at the base commit, gone at the end; `name` tells those of an attempt apart.

        With an `image` that one of them was kept as, from there, at any tree. Where it
        `goes_on`, one that a dead process left may be taken over, at any tree too.

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
        self._image = ""
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
        if self._workspace is not None and self._image != _image_of(self.tree):
            await self.close()
        workspace = self._workspace or await self._opened()
        if self._held != self.tree:
            checkpoint = await self._log.kept(self.tree) if self.tree != BASE else None
            await workspace.restore(checkpoint)
            self._held = self.tree
            self._tree_id = checkpoint.tree if checkpoint else await workspace.tree()
        return workspace

    async def _opened(self) -> Workspace:
        self._image = _image_of(self.tree)
        opened = self._workspaces.open(self._name, image=self._image, goes_on=self.tree != BASE)
        workspace = self._workspace = await self._lifetime.enter_async_context(opened)
        self._held = BASE
        self._tree_id = await workspace.tree() if self.tree == BASE else ""
        return workspace

    async def put(self, tree: str) -> None:
        """Make the workspace hold a tree that the log keeps.

        Raises:
            WorkspaceError: it does not come out as that tree.
        """
        self.tree = tree
        await self.ready()

    async def snapshot(self) -> None:
        """Keep everything that is in the workspace, ignored files and what is outside the
        repository too, where the workspace can; whoever begins at its tree has it."""
        workspace = await self.ready()
        image = await workspace.snapshot()
        if image is not None:
            plain = await self._log.keep(await workspace.checkpoint())
            self.tree = self._held = f"{plain} {image}"
            self._image = image

    async def changed(self) -> str | None:
        """Keep the work tree if it is not what the last step left; None if it is."""
        assert self._workspace is not None
        tree_id = await self._workspace.tree()
        if tree_id != self._tree_id:
            self._tree_id = tree_id
            kept = await self._log.keep(await self._workspace.checkpoint())
            self.tree = self._held = f"{kept} {self._image}".rstrip()
        before, self._recorded = self._recorded, self.tree
        return self.tree if self.tree != before else None

    async def close(self) -> None:
        """Give the workspace back; the next use opens another."""
        self._workspace = None
        await self._lifetime.aclose()


def _image_of(tree: str) -> str:
    """The image that a kept tree goes with, if it goes with one."""
    return "".join(tree.split()[2:])
