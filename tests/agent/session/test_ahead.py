"""Workspaces that open before their branch begins, and close after it has ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.session.session import BASE
from agent.workspaces import HostWorkspace
from tests.agent.session.runs import Runs


async def test_all_workspaces_are_closed_with_the_attempt(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of ended branches and those whose branch did not begin, however the attempt ends."""
    roots = set[Path]()
    opened = HostWorkspace.open

    async def noted(**options: Any) -> HostWorkspace:
        workspace = await opened(**options)
        roots.add(Path(workspace.root))
        return workspace

    monkeypatch.setattr(HostWorkspace, "open", noted)

    async def attempt() -> None:
        async with runs.session() as session:
            session.prepare("not needed")
            async with session.branch("ended", BASE) as branch:
                await branch.run(":", timeout_s=10)
            await session.run(":", timeout_s=10)
            session.prepare("too late")
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        await attempt()
    assert len(roots) >= 3
    assert not any(root.exists() for root in roots)


async def test_a_failure_to_open_is_raised_where_the_workspace_is_needed(runs: Runs) -> None:
    """Not before, and not by an attempt that does without it."""
    runs.workspaces._prepare = lambda path: path.parent.joinpath("missing").rename(path)
    async with runs.session() as session:
        session.prepare("unused")
        session.prepare("fresh")
        await asyncio.sleep(0.05)
        async with session.branch("fresh", BASE) as fresh:
            with pytest.raises(FileNotFoundError):
                await fresh.run(":", timeout_s=10)
