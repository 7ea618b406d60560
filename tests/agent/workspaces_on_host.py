"""Host workspaces of an attempt without other workers."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.workspaces import HostWorkspace, Mount


class HostWorkspaces:
    """Opens workspaces of the repository that `prepare` creates, and records their names."""

    def __init__(self, prepare: Callable[[Path], None], base_commit: str = "HEAD") -> None:
        self.opened: list[str] = []
        self._prepare = prepare
        self._base_commit = base_commit
        self._name = secrets.token_hex(8)

    network = True
    environment = "host"

    def mounting(self, mounts: Sequence[Mount]) -> "HostWorkspaces":
        return self

    @property
    def root(self) -> str:
        return HostWorkspace.root_of(self._name)

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[HostWorkspace]:
        self.opened.append(name)
        workspace = await HostWorkspace.open(
            prepare=self._prepare,
            base_commit=self._base_commit,
            name="-".join([self._name, *name.split("/")]) if name else self._name,
        )
        try:
            yield workspace
        finally:
            await workspace.close()
