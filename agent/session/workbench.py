"""The workspace of one line of work, opened lazily and restored to the last recorded tree.

Scopes may share a workspace and work at the same time. Their steps take turns there, so that each
step has only its own changes. A replay sees these steps in another order than that in which they
happened: the tree of the highest ordinal counts.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from agent.journal import TreeRef
from agent.session.log import StepLog
from agent.workspaces import Environment, Mount, Workspace
from agent.workspaces.ownership import complete

BASE = TreeRef("", "")
"""The work tree of the base commit."""


class Workspaces(Protocol):
    """Opens the workspaces of one attempt."""

    @property
    def root(self) -> str:
        """Absolute path of the repository in all workspaces, as seen by commands."""
        ...

    @property
    def network(self) -> bool:
        """True if commands can reach other machines."""
        ...

    @property
    def environment(self) -> Environment:
        """The kind of place in which commands run."""
        ...

    def mounting(self, mounts: Sequence[Mount]) -> Self:
        """Return the same, but with these mounts in every container."""
        ...

    def open(
        self, name: str, *, image: str, goes_on: bool
    ) -> AbstractAsyncContextManager[Workspace]:
        """Open a workspace at the base commit and remove it at the end.

        `name` distinguishes the workspaces of an attempt. With an `image` that a workspace was
        saved as, start from that image, at any tree. If the work `goes_on`, a workspace left by a
        dead process may be adopted, also at any tree.

        Raises:
            WorkspaceError: the workspace is not available.
        """
        ...


class Workbench:
    """A workspace and the work tree that it should hold according to the recorded steps."""

    def __init__(
        self, name: str, workspaces: Workspaces, log: StepLog, tree: TreeRef = BASE
    ) -> None:
        """Start the line of work at `tree`."""
        self.name = name
        """The path of the branch; empty for the attempt's main line."""
        self.tree = tree
        """The work tree after the last step."""
        self.turn = asyncio.Lock()
        """Held by the step that works here. Steps get it in the order in which they ask."""
        self._ordinal = 0
        # The last recorded step that changed this workspace. Steps of earlier releases and the
        # copied prefix of a fork count only once they are replayed, because the control flow of a
        # fork can be another one. Steps that a fork reused count.
        changes = (
            step
            for step in log.recorded
            if step.bench == name and step.tree is not None and (log.reuse or not step.copied)
        )
        self._last_change = max(changes, key=lambda step: step.ordinal, default=None)
        self._workspaces = workspaces
        self._log = log
        self._workspace: Workspace | None = None
        self._was_open = False
        self._image = ""
        self._tree_id = ""
        self._held = BASE
        self._recorded = tree
        self._lifetime = AsyncExitStack()
        self._opening: asyncio.Task[Workspace] | None = None

    def mount(self, mounts: Sequence[Mount]) -> None:
        """Open the workspace with these mounts, from the next opening on."""
        self._workspaces = self._workspaces.mounting(mounts)

    def replay(self, tree: TreeRef, ordinal: int) -> None:
        """Set the work tree to the tree of a replayed step, unless a later step recorded a tree."""
        if ordinal > self._ordinal:
            self.adopt(tree)
            self._ordinal = ordinal

    def adopt(self, tree: TreeRef) -> None:
        """Set the work tree to the tree after a reused step of a parent."""
        self.tree = self._recorded = tree

    def catch_up(self) -> None:
        """Set the work tree to the last recorded one, whose step may not be replayed yet."""
        step, self._last_change = self._last_change, None
        if step is not None and step.tree is not None:
            self.replay(step.tree, step.ordinal)

    def open(self) -> None:
        """Begin to open the workspace before its first use."""
        self._opening = asyncio.create_task(self._open())

    async def probe(self) -> None:
        """Open the workspace, if it was never open, so that nothing is bought without one.

        Raises:
            WorkspaceError: the workspace is not available. If it is `Unfit`, it never will be.
        """
        if not self._was_open:
            async with self.turn:
                await self.ready()

    async def ready(self) -> Workspace:
        """Return the workspace at the recorded work tree.

        Raises:
            WorkspaceError: the workspace is not available, or not at that tree.
        """
        self.catch_up()
        opening, self._opening = self._opening, None
        if opening is not None:
            await opening
        if self._workspace is not None and self._image != self.tree.image:
            await self.close()
        workspace = self._workspace or await self._open()
        if self._held != self.tree:
            checkpoint = await self._log.load_tree(self.tree) if self.tree != BASE else None
            await workspace.restore(checkpoint)
            self._held = self.tree
            self._tree_id = checkpoint.tree if checkpoint else await workspace.tree()
        return workspace

    async def _open(self) -> Workspace:
        self._image = self.tree.image
        opened = self._workspaces.open(self.name, image=self._image, goes_on=self.tree != BASE)
        workspace = self._workspace = await self._lifetime.enter_async_context(opened)
        self._was_open = True
        self._held = BASE
        self._tree_id = await workspace.tree() if self.tree == BASE else ""
        return workspace

    def take(self, tree: TreeRef) -> None:
        """Let the workspace be at a tree of the log when it is used next."""
        self.catch_up()
        self.tree = tree

    async def diff_since(self, tree: TreeRef) -> str:
        """Return the differences of the workspace from an earlier tree of this line of work."""
        workspace = await self.ready()
        if tree == BASE:
            return await workspace.diff()
        present = await workspace.checkpoint()
        await workspace.restore(await self._log.load_tree(tree))  # a new workspace never had it
        await workspace.restore(present)
        return await workspace.diff_since(tree.tree)

    async def snapshot(self) -> None:
        """Save the whole content of the workspace as an image, if the workspace supports images.

        The image includes ignored files and files outside the repository. A line of work that
        starts at this tree gets all of them.
        """
        workspace = await self.ready()
        image = await workspace.snapshot()
        if image is not None:
            plain = await self._log.save_tree(await workspace.checkpoint())
            self.tree = self._held = replace(plain, image=image)
            self._image = image

    async def save_change(self) -> TreeRef | None:
        """Save the work tree if the last step changed it. Return its reference, or None."""
        if self._workspace is not None and self._held == self.tree:
            tree_id = await self._workspace.tree()
            if tree_id != self._tree_id:
                self._tree_id = tree_id
                tree = await self._log.save_tree(await self._workspace.checkpoint())
                self.tree = self._held = replace(tree, image=self._image)
        before, self._recorded = self._recorded, self.tree
        return self.tree if self.tree != before else None

    async def close(self) -> None:
        """Close the workspace. The next use opens another one."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        self._workspace = None
        await self._lifetime.aclose()


@dataclass
class Workbenches:
    """The workspaces of an attempt. Workspaces of branches open and close alongside its steps.

    Opening and closing take as long as many a command, and nothing has to wait for either.
    """

    workspaces: Workspaces
    log: StepLog
    main: Workbench = field(init=False)
    _opened: dict[str, Workbench] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.main = Workbench("", self.workspaces, self.log)

    def open(self, name: str) -> None:
        """Begin to open the workspace of a branch at the base commit.

        Do nothing if its steps may be answered without a workspace.
        """
        is_recorded = any(step.bench == name for step in self.log.recorded)
        if name not in self._opened and not is_recorded and self.log.reuse is None:
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
        """Close the attempt's own workspace, and the workspaces of branches that were not opened.

        Wait until all workspaces are closed.
        """
        for bench in (self.main, *self._opened.values()):
            self.close(bench)
        self._opened.clear()

        async def wait() -> None:
            await asyncio.gather(*self._closing)

        await complete(wait())
