"""A small project with tests and their configuration, on the host and in an image."""

from collections.abc import AsyncIterator, Iterator

import pytest
from docker import DockerClient

from agent.arms.durable.roles import TOOLS as TOOLS_OF_ROLES
from agent.tools import Toolbox
from agent.workspaces import DockerWorkspace, HostWorkspace, Workspace
from tests.agent.containers import SharedContainer, image_of
from tests.agent.repositories import by_script

PROJECT = r"""
set -e
export GIT_AUTHOR_DATE='2024-01-01 00:00 +0000' GIT_COMMITTER_DATE='2024-01-01 00:00 +0000'
git init -q -b main .
git config user.name Tester
git config user.email tester@example.org
mkdir -p src/calc tests/unit docs
printf 'from calc.core import add\n' >src/calc/__init__.py
printf 'def add(a, b):\n    "Add two numbers."\n    return a - b\n' >src/calc/core.py
printf 'from calc.core import add\n\n\ndef total(numbers):\n    result = 0\n' >src/calc/sums.py
printf '    for number in numbers:\n        result = add(result, number)\n' >>src/calc/sums.py
printf '    return result\n' >>src/calc/sums.py
printf 'from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n' >tests/test_core.py
printf 'def test_true():\n    assert True\n' >tests/unit/test_other.py
printf '1 2 3\n' >tests/unit/data.txt
printf 'import sys\nsys.path.insert(0, "src")\n' >conftest.py
printf '[project]\nname = "calc"\n\n[tool.pytest.ini_options]\naddopts = ""\n' >pyproject.toml
printf '[metadata]\nname = calc\n\n[tool:pytest]\naddopts =\n' >setup.cfg
printf '[tox]\nenvlist = py\n\n[testenv]\ncommands = pytest\n\n[flake8]\nignore = E1\n' >tox.ini
printf 'un\r\ndeux\r\ntrois\r\n' >docs/crlf.txt
printf 'un\r\ndeux\ntrois\n' >docs/mixed.txt
printf 'caf\351\nth\351\n' >docs/latin.txt
printf '\0\1\2' >docs/logo.png
printf '*.log\n__pycache__/\n' >.gitignore
git add -A
git commit -qm base
"""


@pytest.fixture(scope="session")
def project_image(docker_client: DockerClient) -> Iterator[str]:
    """Yield an image with the project in /testbed."""
    with image_of(PROJECT, docker_client) as tag:
        yield tag


@pytest.fixture
async def host() -> AsyncIterator[Workspace]:
    """Yield the project in a folder of this machine."""
    workspace = await HostWorkspace.open(prepare=by_script(PROJECT), base_commit="HEAD")
    yield workspace
    await workspace.close()


@pytest.fixture
async def fresh_container(project_image: str) -> AsyncIterator[Workspace]:
    """Yield the project in a container that no other test uses."""
    workspace = await DockerWorkspace.open(image=project_image, base_commit="HEAD")
    yield workspace
    await workspace.close()


@pytest.fixture(scope="session")
def shared_container(project_image: str) -> Iterator[SharedContainer]:
    """Yield a container with the project for all tests that do not need one of their own."""
    shared = SharedContainer(project_image)
    yield shared
    shared.remove()


@pytest.fixture
async def docker(shared_container: SharedContainer) -> AsyncIterator[Workspace]:
    """Yield the project in the shared container."""
    async with shared_container.workspace("HEAD") as workspace:
        yield workspace


@pytest.fixture(params=["host", pytest.param("docker", marks=pytest.mark.docker)])
def workspace(request: pytest.FixtureRequest) -> Workspace:
    """Return the project on the host, and in a container."""
    opened: Workspace = request.getfixturevalue(request.param)
    return opened


@pytest.fixture
def implementer() -> Toolbox:
    """Return the tools of an implementer."""
    return Toolbox(TOOLS_OF_ROLES["implementer"])
