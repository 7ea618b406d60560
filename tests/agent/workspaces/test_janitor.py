"""The janitor removes leftovers of dead programs, and nothing else."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from agent.errors import WorkspaceError
from agent.workspaces import DockerWorkspace, HostWorkspace, janitor, ownership
from tests.agent.workspaces.conftest import IN_DOCKER, make_repository
from tests.waiting import until

ROOT = Path(__file__).parents[3]

WORKER = """
import asyncio, sys, tempfile
from pathlib import Path
from agent.workspaces import DockerWorkspace, HostWorkspace
from tests.agent.workspaces.conftest import make_repository

kind, attempt, where = sys.argv[1:]
labels = {"durabench.attempt": attempt}

async def main():
    if kind == "host":
        tempfile.tempdir = where
        opened = await HostWorkspace.open(
            prepare=make_repository, base_commit="base", labels=labels
        )
    else:
        opened = await DockerWorkspace.open(image=where, base_commit="base", labels=labels)
    print("open", flush=True)
    await opened.run(f"exec -a sleeper-{attempt} sleep 600", timeout_s=600)

asyncio.run(main())
"""


class Worker:
    """A program with a workspace in which a command runs."""

    def __init__(self, kind: str, attempt: str, where: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, kind, attempt, where],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"open\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def attempt() -> str:
    return secrets.token_hex(6)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is used for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def start() -> Iterator[Callable[[str, str, str], Worker]]:
    """Yield a function that starts workers. They are killed at the end."""
    workers: list[Worker] = []

    def start_one(kind: str, attempt: str, where: str) -> Worker:
        workers.append(Worker(kind, attempt, where))
        return workers[-1]

    yield start_one
    for worker in workers:
        if worker.process.poll() is None:
            worker.kill()


async def of_attempt(attempt: str, *active: str) -> list[janitor.Leftover]:
    """Return the leftovers of one attempt. Other suites may have leftovers of their own."""
    found = await janitor.find(active)
    return [leftover for leftover in found if leftover.attempt == attempt]


async def sweep_one(attempt: str) -> list[str]:
    """Remove the leftovers of one attempt and no others."""
    others = {one.attempt for one in await janitor.find(())} - {attempt, None}
    return [line for line in await janitor.sweep({str(o) for o in others}) if attempt in line]


def sleeps(attempt: str) -> bool:
    """Return True if the command of a worker is still running."""
    sleeper = f"sleeper-{attempt}".encode()
    return any(_read(path).startswith(sleeper) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(params=["host", pytest.param("docker", marks=IN_DOCKER)])
def place(request: pytest.FixtureRequest, temporary: Path) -> tuple[str, str]:
    """Return a kind of workspace and where a worker finds it."""
    if request.param == "host":
        return "host", str(temporary)
    return "docker", str(request.getfixturevalue("image"))


async def test_leftovers_of_a_killed_program_are_removed(
    place: tuple[str, str], attempt: str, start: Callable[[str, str, str], Worker]
) -> None:
    """A running program has no leftovers. A killed one's workspace and command are removed."""
    worker = start(place[0], attempt, place[1])
    await until(lambda: sleeps(attempt), seconds=10, every_s=0.05)
    assert await of_attempt(attempt) == []
    worker.process.send_signal(signal.SIGSTOP)
    assert await of_attempt(attempt) == []
    worker.kill()
    (leftover,) = await of_attempt(attempt)
    assert leftover.kind == {"host": "folder", "docker": "container"}[place[0]]
    assert attempt in str(leftover)
    (line,) = await sweep_one(attempt)
    assert leftover.name in line
    assert await of_attempt(attempt) == []
    await asyncio.sleep(0.2)
    assert not sleeps(attempt)


async def test_leased_leftovers_are_spared(
    place: tuple[str, str], attempt: str, start: Callable[[str, str, str], Worker]
) -> None:
    """Leftovers of an attempt with a lease stay."""
    start(place[0], attempt, place[1]).kill()
    assert await of_attempt(attempt, attempt) == []
    assert len(await of_attempt(attempt)) == 1
    assert len(await sweep_one(attempt)) == 1


async def test_folders_of_other_programs_are_spared(temporary: Path) -> None:
    """Only folders with our own labels are leftovers. A similar name is not enough."""
    (temporary / "durabench-notes").mkdir()
    (temporary / "durabench-broken").mkdir()
    (temporary / "durabench-broken" / "labels.json").write_text("[not labels")
    (temporary / "durabench-foreign").mkdir()
    (temporary / "durabench-foreign" / "labels.json").write_text(json.dumps({"a": "b"}))
    assert [one for one in await janitor.find(()) if one.kind == "folder"] == []
    assert len(list(temporary.iterdir())) == 3


async def test_a_reused_process_number_is_not_the_owner(attempt: str, temporary: Path) -> None:
    """A dead process's folder is found even if another process has its number now."""
    workspace = await HostWorkspace.open(
        prepare=make_repository, base_commit="base", labels={"durabench.attempt": attempt}
    )
    labels_file = Path(workspace.root).parent / "labels.json"
    labels = json.loads(labels_file.read_text())
    assert labels["durabench.process"] == ownership.process()
    assert await of_attempt(attempt) == []
    labels_file.write_text(json.dumps({**labels, "durabench.process": f"{os.getpid()}-1"}))
    assert len(await of_attempt(attempt)) == 1
    await workspace.close()


@pytest.mark.docker
async def test_an_adopted_container_belongs_to_its_new_program(
    image: str,
    attempt: str,
    start: Callable[[str, str, str], Worker],
    docker_client: DockerClient,
) -> None:
    """An adopted container still names the dead process, but is no leftover of the new program."""
    start("docker", attempt, image).kill()
    workspace = await DockerWorkspace.open(
        image=image, base_commit="base", adopt=f"durabench.attempt={attempt}"
    )
    assert docker_client.containers.get(workspace.container_id).labels["durabench.attempt"]
    assert await of_attempt(attempt) == []
    await workspace.close()


@pytest.mark.docker
async def test_a_container_that_could_not_be_removed_is_a_leftover_of_a_living_program(
    image: str, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon was away when the workspace was closed. The same program removes it later."""
    labels = {"durabench.attempt": attempt}
    workspace = await DockerWorkspace.open(image=image, base_commit="base", labels=labels)
    assert await of_attempt(attempt) == []
    with monkeypatch.context() as away:
        away.setattr(janitor.docker_daemon, "client", lambda: _refuse())
        await workspace.close()
    assert len(await sweep_one(attempt)) == 1
    assert await of_attempt(attempt) == []


async def test_a_named_workspace_replaces_its_leftovers(attempt: str, temporary: Path) -> None:
    """A new workspace of the same name replaces the old one, whose close then removes nothing."""

    async def opened() -> HostWorkspace:
        return await HostWorkspace.open(prepare=make_repository, base_commit="base", name=attempt)

    first = await opened()
    running = asyncio.create_task(first.run("touch new; sleep 8765", timeout_s=600))
    await asyncio.sleep(0.3)
    second = await opened()
    assert second.root == first.root
    with pytest.raises(WorkspaceError, match="ended"):
        await asyncio.wait_for(running, 5)
    await first.close()
    assert (await second.run("ls new; cat open.txt", timeout_s=5)).output.endswith("without end")
    await second.close()
    assert list(temporary.iterdir()) == []


async def test_without_docker_folders_are_found(
    attempt: str,
    temporary: Path,
    start: Callable[[str, str, str], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a Docker daemon there are no containers to find, which is not an error."""
    start("host", attempt, str(temporary)).kill()
    monkeypatch.setattr(janitor.docker_daemon, "client", lambda: _refuse())
    assert [one.kind for one in await of_attempt(attempt)] == ["folder"]
    assert len(await janitor.sweep(())) == 1


def _refuse() -> None:
    from docker.errors import DockerException

    raise DockerException("no daemon")
