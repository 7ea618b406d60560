"""Programs in containers without network: what they reach, what they see, and what they leave."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from agent.arms.command import installed
from agent.arms.command.recipe import Install, Recipe
from agent.errors import WorkspaceError
from agent.models.protocol import Model
from agent.types import Task
from agent.workspaces import DockerWorkspace, Mount, ResourceLimits
from tests.agent.arms.command.conftest import REPOSITORY
from tests.agent.arms.command.programs import TINY, Program, commands, report, tiny
from tests.agent.containers import image_of
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic, Asked, Called, Said

pytestmark = pytest.mark.docker

INSIDE = """
import json, os, pathlib, socket

def reaches(address):
    try:
        socket.create_connection(address, 1).close()
    except OSError:
        return False
    return True

def environment(process):
    try:
        return (process / "environ").read_bytes().decode()
    except (FileNotFoundError, ProcessLookupError):
        return "it has ended"

processes = [path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
mounts = [line.split() for line in open("/proc/mounts")]
print(json.dumps({
    "environment": {path.name: environment(path) for path in processes},
    "mounted": [line[1] for line in mounts if line[0].startswith("/dev/")],
    "read_only": {line[1]: "ro" in line[3].split(",") for line in mounts},
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "host": reaches(("172.17.0.1", 22)) or reaches(("1.1.1.1", 443)),
    "capabilities": [line for line in open("/proc/self/status") if line.startswith("CapEff")],
    "socket_folder": os.listdir("/run/durabench"),
    "agent": sorted(os.listdir("/opt/agent")),
}))
"""


@dataclass
class Containers:
    """Opens containers of an image for one attempt."""

    image: str
    mounts: tuple[Mount, ...] = ()
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    environment = "docker"
    network = False
    root = "/testbed"

    def mounting(self, mounts: Sequence[Mount]) -> "Containers":
        return replace(self, mounts=tuple(mounts))

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[DockerWorkspace]:
        opened = await DockerWorkspace.open(
            image=image or self.image, base_commit="HEAD", mounts=self.mounts, limits=self.limits
        )
        try:
            yield opened
        finally:
            await opened.close()


@pytest.fixture
def agent_folder(tmp_path: Path, docker_client: DockerClient) -> Iterator[Path]:
    """Yield a folder with the installed tiny agent, and remove the volume that it becomes."""
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "tiny_agent.py").write_text(TINY.read_text())
    (folder / "inside.py").write_text(INSIDE)
    yield folder
    name = asyncio.run(installed.volume(Install(folder=folder)))
    for each in (name, f"{name}-complete"):
        docker_client.volumes.get(each).remove()


def recipe_of(folder: Path, run: str = "python3 /opt/agent/tiny_agent.py messages") -> Recipe:
    return tiny("messages", run=run, install={"folder": str(folder)}, volatile=["metadata"])


def model_at(server: OpenAIServer) -> dict[str, Any]:
    """Return the specification of a model that the server answers for."""
    return {"name": "anthropic/claude-sonnet-4-5", "api_base": server.url.removesuffix("/v1")}


def program(tmp_path: Path, recipe: Recipe, model: dict[str, Any] | Model, image: str) -> Program:
    made = Program(tmp_path, recipe, model)
    made.workspaces = Containers(image)
    return made


async def test_a_program_works_without_network(
    tmp_path: Path, agent_folder: Path, image: str
) -> None:
    """It finds its model behind the socket, and its change is submitted."""
    with OpenAIServer(Anthropic(commands)) as server:
        made = program(tmp_path, recipe_of(agent_folder), model_at(server), image)
        outcome = await made.run(task=Task("t", "say hello", "HEAD", ""))
        assert len(server.requests) == 4
    assert outcome.status == "submitted", outcome.detail
    assert "+hello\n" in outcome.patch
    assert report(outcome)["calls"] == 4


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("python3 -c 'x = bytearray(300 * 2**20)'", "killed for memory"),
        pytest.param(
            "echo 1000 >/proc/1/oom_score_adj; head -c 40M /dev/zero | tail & "
            "head -c 40M /dev/zero | tail",
            "lost",
            id="the whole container",
        ),
    ],
)
async def test_a_program_without_memory_is_started_again(
    tmp_path: Path, image: str, script: str, end: str
) -> None:
    """The reason names the limit, and the program is not the cause of an end of its attempt."""
    recipe = tiny("chat", run=script)
    made = program(tmp_path, recipe, {"provider": "scripted", "replies": ["x"]}, image)
    made.workspaces = replace(made.workspaces, limits=ResourceLimits(memory_bytes=64 * 2**20))
    reason = rf"the program was {end}: the container reached the memory limit of 0\.0625 GB"
    for _ in range(3):
        with pytest.raises(WorkspaceError, match=reason) as killed:
            await made.run()
        assert killed.value.retryable
    with pytest.raises(WorkspaceError, match=f"{reason}.*, and so was each of 3") as killed:
        await made.run()
    assert not killed.value.retryable


async def test_the_inside_shows_nothing_of_the_host(
    tmp_path: Path, agent_folder: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, no route, no capability and no mount but the socket and the program, read-only."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-6f1d")
    seen: list[str] = []

    def looks(asked: Asked) -> Said:
        if asked.turns == 1:
            seen.append(asked.results[-1])
            return Said("Done.")
        return Said(None, (Called("bash", '{"command": "python3 /opt/agent/inside.py"}'),))

    with OpenAIServer(Anthropic(looks)) as server:
        model = model_at(server)
        await program(tmp_path, recipe_of(agent_folder), model, image).run()
    assert "canary-6f1d" not in seen[0]
    told = json.loads(seen[0])
    assert told["interfaces"] == ["lo"]
    assert not told["host"]
    assert told["socket_folder"] == ["gateway.sock"]
    assert told["agent"] == ["inside.py", "tiny_agent.py"]
    assert told["read_only"]["/run/durabench"]
    assert told["read_only"]["/opt/agent"]
    docker = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/usr/sbin/docker-init"}
    assert set(told["mounted"]) <= docker | {"/opt/agent", "/run/durabench"}
    assert int(told["capabilities"][0].split()[1], 16) & (1 << 21) == 0, "no CAP_SYS_ADMIN"


@pytest.fixture(scope="module")
def agent_image(docker_client: DockerClient) -> Iterator[str]:
    """Yield an image with the tiny agent in /opt/agent and in /source."""
    script = f"""{REPOSITORY}
        mkdir /opt/agent /source
        cat >/opt/agent/tiny_agent.py <<'AGENT'
{TINY.read_text()}
AGENT
        cp /opt/agent/tiny_agent.py /source
    """
    with image_of(script, docker_client) as tag:
        yield tag


@pytest.fixture
def volumes(docker_client: DockerClient) -> Iterator[list[str]]:
    """Yield a list of volumes to remove."""
    names: list[str] = []
    yield names
    for name in names:
        docker_client.volumes.get(name).remove()


@pytest.mark.parametrize(
    "run", [None, "cp /source/tiny_agent.py /opt/agent; echo 1 >>/opt/agent/n"]
)
async def test_an_image_becomes_a_volume_once(
    tmp_path: Path,
    agent_image: str,
    image: str,
    run: str | None,
    docker_client: DockerClient,
    volumes: list[str],
) -> None:
    """Its folder, or what a script installs in it, is the program in images without it."""
    install = Install(image=agent_image, run=run)
    recipe = tiny(
        "messages",
        run="cat /opt/agent/n; python3 /opt/agent/tiny_agent.py messages",
        install=install.model_dump(),
        volatile=["metadata"],
    )
    volume = await installed.volume(install)
    volumes += [volume, f"{volume}-complete"]
    with OpenAIServer(Anthropic(commands)) as server:
        model = model_at(server)
        outcome = await program(tmp_path, recipe, model, image).run()
    assert outcome.status == "submitted", outcome.detail
    assert "+hello\n" in outcome.patch
    assert report(outcome)["last_words"].startswith("1\n" if run else "cat: ")
    made_from = {"ancestor": agent_image}
    assert docker_client.containers.list(all=True, filters=made_from) == []


async def test_a_failed_installation_leaves_nothing(
    agent_image: str, docker_client: DockerClient
) -> None:
    """The error has the last words of the script, and a later run installs again."""
    install = Install(image=agent_image, run="touch /opt/agent/half; echo no such package; exit 7")
    for _ in range(2):
        with pytest.raises(WorkspaceError, match="exit code 7: no such package") as failed:
            await installed.volume(install)
        assert not failed.value.retryable
    name = f"durabench-agent-{installed._digest(docker_client, install)}"
    assert docker_client.volumes.list(filters={"name": name}) == []
