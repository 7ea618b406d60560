"""An image with the repository of the task."""

from collections.abc import Iterator

import pytest
from docker import DockerClient

from tests.agent.containers import image_of

REPOSITORY = """
cd /testbed
git init -q && echo goodbye >greeting.txt && git add .
git -c user.name=t -c user.email=t@example.invalid commit -qm base
"""


@pytest.fixture(scope="session")
def image(docker_client: DockerClient) -> Iterator[str]:
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag
