"""Snapshots of containers preserve files that git does not track."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.session.session import BASE, Session
from agent.workspaces import DockerWorkspace, Workspace, container, janitor, ownership

pytestmark = pytest.mark.docker

ATTEMPT, JOURNAL = "attempt-with-snapshots", "journal-with-snapshots"
LABELS = {ownership.ATTEMPT: ATTEMPT, ownership.JOURNAL: JOURNAL}


class Containers:
    """Opens workspaces of one image or of a snapshot."""

    root = container.ROOT

    def __init__(self, image: str) -> None:
        self._image = image

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[Workspace]:
        workspace = await DockerWorkspace.open(
            image=image or self._image, base_commit="HEAD", labels=LABELS
        )
        try:
            yield workspace
        finally:
            await workspace.close()


async def test_ignored_files_and_what_is_outside_survive(image: str) -> None:
    """A branch from a snapshot has its untracked and outside files, even after further changes."""
    async with Session.start(attempt_id="a", models={}, workspaces=Containers(image)) as session:
        async with session.branch("one", BASE) as one:
            await one.run(
                "echo '*.log' > .gitignore; echo kept > build.log; echo out > /opt/outside; "
                "echo new > new.txt",
                timeout_s=10,
            )
            await one.snapshot()
            kept = one.tree
        await session.take(kept)
        found = await session.run("cat build.log /opt/outside new.txt", timeout_s=10)
        assert found.output.split() == ["kept", "out", "new"]
        await session.run("echo more >> new.txt; rm build.log", timeout_s=10)
        async with session.branch("two", session.tree) as two:
            found = await two.run("cat build.log /opt/outside new.txt", timeout_s=10)
            assert found.output.split() == ["kept", "out", "new", "more"]
        await session.take(BASE)
        assert (await session.run("ls /opt", timeout_s=10)).output == ""
    assert ATTEMPT not in await janitor.snapshots("of-another-lake")
    images = (await janitor.snapshots(JOURNAL))[ATTEMPT]
    assert len(await janitor.remove_snapshots(images)) == len(images)
    assert ATTEMPT not in await janitor.snapshots(JOURNAL)
