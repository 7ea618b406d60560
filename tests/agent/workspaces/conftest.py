"""The same small repository on the host and in an image."""

from collections.abc import AsyncIterator, Iterator

import pytest
from docker import DockerClient

from agent.workspaces import HostWorkspace, Workspace
from tests.agent.containers import SharedContainer, image_of
from tests.agent.repositories import by_script

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


make_repository = by_script(REPOSITORY)

IN_DOCKER = pytest.mark.docker


@pytest.fixture(scope="session")
def image(docker_client: DockerClient) -> Iterator[str]:
    """Yield an image with the repository in /testbed."""
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag


@pytest.fixture(scope="session")
def shared_container(image: str) -> Iterator[SharedContainer]:
    """Yield a container for all tests that do not need one of their own."""
    shared = SharedContainer(image)
    yield shared
    shared.remove()


@pytest.fixture(params=["host", pytest.param("docker", marks=IN_DOCKER)])
async def workspace(request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    """Yield a workspace on the host, and one in a container."""
    if request.param == "docker":
        shared: SharedContainer = request.getfixturevalue("shared_container")
        async with shared.workspace("base") as in_container:
            yield in_container
        return
    on_host = await HostWorkspace.open(prepare=make_repository, base_commit="base")
    yield on_host
    await on_host.close()
