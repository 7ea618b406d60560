"""Docker workspaces: the permissions of a container, and its removal."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import pytest
from docker import DockerClient

from agent.errors import Destroyed, WorkspaceError
from agent.workspaces import (
    DockerWorkspace,
    container,
    docker_daemon,
    shell,
)
from tests.agent.commands import sh

pytestmark = pytest.mark.docker


async def opened(image: str, **options: object) -> DockerWorkspace:
    return await DockerWorkspace.open(image=image, base_commit="base", **options)  # type: ignore[arg-type]


@pytest.fixture
async def workspace(image: str) -> AsyncIterator[DockerWorkspace]:
    workspace = await opened(image)
    yield workspace
    await workspace.close()


def labelled(client: DockerClient, run: str) -> int:
    """Return the number of containers in any state with the label `run`."""
    return len(client.containers.list(all=True, filters={"label": f"run={run}"}))


async def test_there_is_no_network(workspace: DockerWorkspace) -> None:
    """The loopback is the only network interface, and it works."""
    assert (await sh(workspace, "ls /sys/class/net")).split() == ["lo"]
    talk = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "socket.create_connection(s.getsockname()); print('connected')"
    )
    assert await sh(workspace, f'python3 -c "{talk}"') == "connected\n"


async def test_objects_of_the_image_are_not_copied(
    workspace: DockerWorkspace, docker_client: DockerClient
) -> None:
    """Looks at the work tree leave git's objects as they are in the image, of which all containers
    share one copy."""
    await workspace.write("text.txt", b"changed\n")
    assert await workspace.diff()
    assert await workspace.checkpoint()
    copied = await asyncio.to_thread(docker_client.containers.get(workspace.container_id).diff)
    paths = [each["Path"] for each in copied]
    assert "/testbed/text.txt" in paths
    assert [path for path in paths if path.startswith("/testbed/.git/objects")] == []


async def test_capabilities_are_the_listed_ones(workspace: DockerWorkspace) -> None:
    """The effective and bounding sets are the six listed capabilities, and none can be gained."""
    text = await sh(workspace, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")
    status = dict(line.split(":\t") for line in text.splitlines())
    numbers = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}
    wanted = sum(1 << numbers[name] for name in container.CAPABILITIES)
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == wanted
    assert status["NoNewPrivs"] == "1"
    for forbidden in ("mount -t tmpfs none /mnt", "mknod /tmp/disk b 8 0", "chroot / true"):
        assert (await workspace.run(forbidden, timeout_s=10)).exit_code != 0


async def test_root_can_do_what_suites_and_pip_need(workspace: DockerWorkspace) -> None:
    """Root can change owners, edit others' files, become another user and kill its processes."""
    sleeper = "import os; os.setgid(1000); os.setuid(1000); os.execvp('sleep', ['sleep', '60'])"
    result = await workspace.run(
        "set -e; touch f; chown 1000:1000 f; chmod 400 f; echo x >>f; touch -d yesterday f;"
        f'python3 -c "{sleeper}" & sleep 0.5; kill $!; git init -q /tmp/r; git -C /tmp/r status',
        timeout_s=20,
    )
    assert result.exit_code == 0, result.output


async def test_the_hosts_environment_stays_outside(
    image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process in the container sees a variable of the host, and nothing is mounted."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-agents")
    workspace = await opened(image)
    seen = await sh(workspace, "cat /proc/[0-9]*/environ | tr '\\0' '\\n'; env")
    assert "OPENAI_API_KEY" not in seen
    assert "PAGER=cat" in seen
    attributes = docker_daemon.client().containers.get(workspace.container_id).attrs
    assert attributes["Mounts"] == []
    await workspace.close()


async def test_an_images_environment_is_active_once(workspace: DockerWorkspace) -> None:
    """/root/.bashrc is read once per shell, in commands and in scripts that they start, but not for
    the shell's own work."""
    await workspace.run("echo 'export CONDA_PREFIX=/env; echo read' >>/root/.bashrc", timeout_s=5)
    assert await sh(workspace, "echo $CONDA_PREFIX") == "read\n/env\n"
    assert await sh(workspace, "bash -c 'echo $CONDA_PREFIX'") == "read\nread\n/env\n"
    assert await workspace.read("open.txt") == b"last line without end"
    assert await workspace.diff() == ""


@pytest.mark.parametrize("network", [False, True])
async def test_installers_try_once_without_a_network(image: str, network: bool) -> None:
    """Without a network, installers are configured to try only once."""
    workspace = await opened(image, network=network)
    here = await sh(workspace, "env")
    first = await sh(workspace, "tr '\\0' '\\n' </proc/1/environ")
    for name, value in container.OFFLINE_ENVIRONMENT.items():
        for seen in (here, first):
            assert (f"{name}={value}" in seen.splitlines()) == (not network)
    await workspace.close()


async def test_orphans_are_reaped(workspace: DockerWorkspace) -> None:
    """Processes that lost their parents leave no zombies."""
    for _ in range(5):
        await sh(workspace, "(setsid sleep 0.01 &) ; sleep 0.05")
    async with asyncio.timeout(10):
        while "Z" in await sh(workspace, "cut -d' ' -f3 /proc/[0-9]*/stat"):
            await asyncio.sleep(0.1)  # each process is a zombie for a moment


async def test_a_killed_container_is_an_error(
    workspace: DockerWorkspace, docker_client: DockerClient
) -> None:
    """A command whose container is killed fails within seconds with a retryable error."""
    running = asyncio.create_task(workspace.run("sleep 60", timeout_s=600))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(docker_client.containers.get(workspace.container_id).kill)
    start = time.monotonic()
    with pytest.raises(WorkspaceError, match="ended") as caught:
        await running
    assert time.monotonic() - start < 5
    assert caught.value.retryable


@pytest.mark.parametrize(
    "command",
    [
        "kill -KILL 1; kill -KILL -1",
        "kill -TERM -1; kill -HUP -1; kill -KILL -1",
        "kill -STOP -1",
        "pkill -KILL bash; pkill -KILL sleep; exec true",
    ],
)
async def test_killing_every_process_is_a_result(
    workspace: DockerWorkspace, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may kill all that runs in its container. The container lives, and so does work."""
    monkeypatch.setattr(shell, "GRACE_S", 1.0)
    result = await workspace.run(f"echo new >new.txt; {command}", timeout_s=2)
    assert result.exit_code in (0, 124, 137)
    for _ in range(2):
        assert await sh(workspace, "cat new.txt") == "new\n"
        await workspace.run("kill -KILL -1", timeout_s=2)


async def test_a_workspace_that_can_start_no_shell_is_destroyed(workspace: DockerWorkspace) -> None:
    """Without bash, the container lives but no command can run, which the model is told."""
    with pytest.raises(Destroyed, match="no shell can be started"):
        await workspace.run("rm -f /bin/bash /usr/bin/bash; kill -KILL -1", timeout_s=2)


async def test_an_unknown_image_says_how_to_get_it() -> None:
    """The message names the image and the command to get it, and the error is not retryable."""
    with pytest.raises(
        WorkspaceError, match=r"no image durabench/nowhere:1 .*docker pull .*images build"
    ) as caught:
        await opened("durabench/nowhere:1")
    assert not caught.value.retryable


@pytest.mark.parametrize("root", ["/no/such/folder", "/etc/passwd"])
async def test_an_image_without_the_root_leaves_no_container(
    image: str, docker_client: DockerClient, root: str
) -> None:
    """The error names the missing folder, and the container is removed."""
    run = secrets.token_hex(4)
    with pytest.raises(WorkspaceError, match=f"cannot hold a workspace.*{root}") as caught:
        await opened(image, root=root, labels={"run": run})
    assert not caught.value.retryable
    assert labelled(docker_client, run) == 0


@pytest.mark.parametrize(
    "after_s",
    [0.0, 0.02, 0.05, 0.08, 0.1],
)
async def test_a_cancelled_opening_leaves_no_container(
    image: str, docker_client: DockerClient, after_s: float
) -> None:
    """A cancelled opening removes the container, whatever stage its creation has reached."""
    run = secrets.token_hex(4)
    task = asyncio.create_task(opened(image, labels={"run": run}))
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert labelled(docker_client, run) == 0
