"""A container that outlived its program is reused by exactly one other program."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import pytest
from docker import DockerClient

from agent.errors import WorkspaceError
from agent.workspaces import DockerWorkspace, shell
from tests.agent.commands import sh

pytestmark = pytest.mark.docker


class Opener:
    """Opens workspaces of one attempt."""

    def __init__(self, image: str) -> None:
        self.attempt = secrets.token_hex(6)
        self.label = f"durabench.attempt={self.attempt}"
        self._image = image

    async def open(self, *, adopt: bool = True, network: bool = False) -> DockerWorkspace:
        return await DockerWorkspace.open(
            image=self._image,
            base_commit="base",
            labels={"durabench.attempt": self.attempt},
            network=network,
            adopt=self.label if adopt else None,
        )


@pytest.fixture
async def opener(image: str, docker_client: DockerClient) -> AsyncIterator[Opener]:
    opener = Opener(image)
    yield opener
    for left in docker_client.containers.list(all=True, filters={"label": opener.label}):
        left.remove(force=True)


async def test_nothing_to_adopt_is_a_new_container(opener: Opener) -> None:
    """Without a container to adopt, or without a request to adopt one, a new one is created."""
    first = await opener.open()
    second = await opener.open(adopt=False)
    assert first.container_id != second.container_id


async def test_a_container_is_adopted_with_its_files(opener: Opener) -> None:
    """An adopted container keeps its files outside the repository, and its tree can be restored."""
    first = await opener.open()
    await sh(first, "echo 4 >text.txt; echo kept >/root/outside")
    checkpoint = await first.checkpoint()
    await sh(first, "echo 5 >text.txt; git add -A; git commit -qm late; echo 6 >new.txt")

    second = await opener.open()
    assert second.container_id == first.container_id
    assert second.image_digest == first.image_digest
    await second.restore(checkpoint)
    assert await second.tree() == checkpoint.tree
    assert await sh(second, "cat /root/outside text.txt; git log --oneline | wc -l") == (
        "kept\n4\n1\n"
    )


async def test_the_previous_holder_loses_the_container(opener: Opener) -> None:
    """The previous holder's running command fails, and closing its workspace removes nothing."""
    first = await opener.open()
    running = asyncio.create_task(first.run("sleep 4567", timeout_s=600))
    await asyncio.sleep(0.3)
    second = await opener.open()
    with pytest.raises(WorkspaceError):
        await asyncio.wait_for(running, 5)
    await first.close()
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 456[7]"
    assert await sh(second, look) == "0\n"


async def test_paused_and_stopped_containers_are_adopted(
    opener: Opener, docker_client: DockerClient
) -> None:
    """A paused or killed container is started again and adopted."""
    first = await opener.open()
    docker_client.containers.get(first.container_id).pause()
    second = await opener.open()
    docker_client.containers.get(first.container_id).kill()
    third = await opener.open()
    assert first.container_id == second.container_id == third.container_id
    assert await sh(third, "cat open.txt") == "last line without end"


async def test_only_the_same_image_and_network_are_adopted(
    opener: Opener, docker_client: DockerClient
) -> None:
    """A container with another network setting is not adopted."""
    first = await opener.open()
    second = await opener.open(network=True)
    assert first.container_id != second.container_id
    assert await sh(first, "echo fine") == "fine\n"


async def test_a_container_of_another_user_is_not_adopted(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container of another user is not adopted, even if it carries the same attempt's label."""
    monkeypatch.setattr("agent.workspaces.ownership.owner", lambda: "somebody-else")
    first = await opener.open()
    monkeypatch.undo()
    assert (await opener.open()).container_id != first.container_id
    assert await sh(first, "echo fine") == "fine\n"


async def test_a_container_that_cannot_be_restored_is_replaced(
    opener: Opener, docker_client: DockerClient
) -> None:
    """A container without the saved state of its start is removed and replaced by a new one."""
    first = await opener.open()
    await sh(first, f"rm -rf {first._scratch}")
    second = await opener.open()
    assert second.container_id != first.container_id
    assert len(docker_client.containers.list(all=True, filters={"label": opener.label})) == 1


async def test_a_paused_container_is_an_error_in_time(
    opener: Opener, docker_client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in a paused container fails soon after its timeout, and closing still works."""
    monkeypatch.setattr(shell, "GRACE_S", 1.0)
    workspace = await opener.open()
    docker_client.containers.get(workspace.container_id).pause()
    start = time.monotonic()
    with pytest.raises(WorkspaceError, match="did not end a command"):
        await workspace.run("true", timeout_s=1)
    assert time.monotonic() - start < 4
    await workspace.close()
    assert time.monotonic() - start < 10
    assert not docker_client.containers.list(all=True, filters={"label": opener.label})
