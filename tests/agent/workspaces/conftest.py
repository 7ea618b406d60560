"""The same small repository in a folder of the host and in an image."""

import io
import secrets
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docker import DockerClient

from agent.workspaces import DockerWorkspace, HostWorkspace, Workspace

BASE_IMAGE = "durabench/base:bookworm"

REPOSITORY = r"""
set -e
export GIT_AUTHOR_DATE='2024-01-01 00:00 +0000' GIT_COMMITTER_DATE='2024-01-01 00:00 +0000'
git init -q -b main .
git config user.name Tester
git config user.email tester@example.org
printf 'one\ntwo\nthree\n' >text.txt
printf 'un\r\ndeux\r\n' >crlf.txt
printf 'caf\351\n' >latin.txt
printf 'last line without end' >open.txt
printf '\0\1\2' >binary.dat
printf 'gone\n' >gone.txt
printf 'echo tool\n' >tool.sh
printf '*.log\n' >.gitignore
mkdir -p pkg/deep && printf 'x = 1\n' >pkg/deep/mod.py
git add -A
git commit -qm base
git tag base
echo compiled >compiled.log
"""


def make_repository(path: Path) -> None:
    path.mkdir()
    subprocess.run(["bash", "-c", REPOSITORY], cwd=path, check=True)


@contextmanager
def image_of(script: str, client: DockerClient) -> Iterator[str]:
    """An image with what the script makes in /testbed; gone at the end."""
    tag = f"durabench-test/{secrets.token_hex(4)}:repo"
    dockerfile = f"FROM {BASE_IMAGE}\nWORKDIR /testbed\nCOPY make.sh /\nRUN bash /make.sh\n"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, text in (("Dockerfile", dockerfile), ("make.sh", script)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=tag, rm=True, network_mode="none")
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(scope="session")
def image(docker_client: DockerClient) -> Iterator[str]:
    """An image with the repository in /testbed."""
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag


@pytest.fixture(params=["host", pytest.param("docker", marks=pytest.mark.docker)])
async def workspace(request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    """A workspace of each kind in turn."""
    opened: Workspace
    if request.param == "host":
        opened = await HostWorkspace.open(prepare=make_repository, base_commit="base")
    else:
        opened = await DockerWorkspace.open(
            image=request.getfixturevalue("image"), base_commit="base"
        )
    yield opened
    await opened.close()
