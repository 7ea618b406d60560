"""Limits of a container that a command reaches: told in its output, and survived."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from docker import DockerClient

from agent.errors import Destroyed
from agent.workspaces import DockerWorkspace, ResourceLimits, container, limits

pytestmark = pytest.mark.docker

MB = 2**20
SMALL = ResourceLimits(memory_bytes=64 * MB, pids=60, disk_bytes=100 * MB)
SMALL_DISK = replace(SMALL, memory_bytes=1024 * MB)  # for what waits to be written, too
EAT = "python3 -c 'x = bytearray(300 * 2**20)'"
MEMORY = {"memory_gb": "the memory limit of 0.0625 GB"}
PIDS = {"pids": "the limit of 60 processes"}


@pytest.fixture
async def workspace(image: str) -> AsyncIterator[DockerWorkspace]:
    opened = await DockerWorkspace.open(image=image, base_commit="base", limits=SMALL)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("command", "exit_code", "reached"),
    [
        pytest.param(EAT, 137, MEMORY, id="memory"),
        pytest.param("bomb() { bomb | bomb & }; bomb; sleep 60", 124, PIDS, id="fork bomb"),
        pytest.param("dd if=/dev/zero of=/dev/shm/x bs=1M count=8", 0, {}, id="none"),
        pytest.param(f"({EAT}) &>/dev/null; true", 0, MEMORY, id="memory of a part"),
        pytest.param(f"(setsid {EAT} &); sleep 1", 0, MEMORY, id="memory of a bystander"),
    ],
)
async def test_a_command_is_told_the_limit_that_it_reached(
    workspace: DockerWorkspace, command: str, exit_code: int, reached: dict[str, str]
) -> None:
    """The output of just that command names the limit, however it ended. The next one runs."""
    result = await workspace.run(command, timeout_s=5)
    assert result.exit_code == exit_code
    assert workspace.limits_reached == reached
    assert ("the container reached" in result.output) == bool(reached)
    assert all(limit in result.output for limit in reached.values())
    assert (await workspace.run("echo fine", timeout_s=10)).output == "fine\n"


async def test_a_container_that_loses_its_first_process_for_lack_of_memory_has_ended(
    workspace: DockerWorkspace,
) -> None:
    """The kernel chooses process 1 here. Docker often hears of the end before the reason."""
    with pytest.raises(Destroyed, match=r"the container reached the memory limit of 0\.0625 GB"):
        await workspace.run(
            "echo 1000 >/proc/1/oom_score_adj; head -c 40M /dev/zero | tail & "
            "head -c 40M /dev/zero | tail",
            timeout_s=60,
        )
    assert workspace.limits_reached == MEMORY


@pytest.mark.parametrize(
    "command",
    [
        "fallocate -l 1G big; sleep 60",
        "dd if=/dev/zero of=/var/big bs=1M",
    ],
)
async def test_a_container_that_writes_without_end_is_ended(
    image: str, docker_client: DockerClient, command: str
) -> None:
    """It is removed with its files, whether they are in the work tree or not."""
    workspace = await DockerWorkspace.open(image=image, base_commit="base", limits=SMALL_DISK)
    with pytest.raises(Destroyed, match=r"the container reached the disk limit of 0\.0977 GB"):
        await workspace.run(command, timeout_s=60)
    assert list(workspace.limits_reached) == ["disk_gb"]
    await workspace.close()
    found = docker_client.containers.list(all=True, filters={"id": workspace.container_id})
    assert found == []


async def test_what_takes_no_disk_is_not_counted(workspace: DockerWorkspace) -> None:
    """Holes of a sparse file are not, and what process 1 is made to print is not kept."""
    await workspace.run("truncate -s 9G sparse; head -c 300M /dev/zero >/proc/1/fd/1", timeout_s=30)
    used, free = await asyncio.to_thread(workspace._container.measure, SMALL.disk_bytes)
    assert used < 10 * MB < free
    assert (await workspace.run("echo fine", timeout_s=10)).output == "fine\n"


async def test_a_disk_that_is_nearly_full_ends_containers(
    workspace: DockerWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That says nothing about the command."""
    monkeypatch.setattr(limits, "RESERVE_BYTES", 2**60)
    with pytest.raises(container.WorkspaceError, match="is nearly full") as caught:
        await workspace.run("sleep 60", timeout_s=60)
    assert not isinstance(caught.value, Destroyed)
