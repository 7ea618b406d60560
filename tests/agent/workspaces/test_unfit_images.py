"""Images in which nothing can work are found when a workspace is opened, and graded as root."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from agent.errors import Unfit
from agent.workspaces import DockerWorkspace
from tests.agent.commands import sh
from tests.agent.containers import image_of
from tests.unfit_images import OF_USERS, UNFIT_LAYERS, layered

pytestmark = pytest.mark.docker

REPOSITORY = """\
git init -q && echo one >a.txt && git add -A
git -c user.name=t -c user.email= commit -qm base && git tag base
"""


@pytest.fixture(scope="module")
def image(docker_client: DockerClient) -> Iterator[str]:
    """Yield an image with a repository of root."""
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag


@pytest.mark.parametrize("name", UNFIT_LAYERS)
async def test_an_image_that_cannot_work_is_refused_in_one_line(
    name: str, image: str, docker_client: DockerClient
) -> None:
    """The line names the image and the reason. A later try cannot help."""
    layer, reason = UNFIT_LAYERS[name]
    with layered(image, layer, docker_client) as tag:
        with pytest.raises(Unfit, match=reason) as caught:
            await DockerWorkspace.open(image=tag, base_commit="base")
        assert str(caught.value).startswith(f"image {tag} cannot hold a workspace: ")
        assert "\n" not in str(caught.value)
        assert not caught.value.retryable


@pytest.mark.parametrize("name", OF_USERS)
async def test_a_workspace_works_for_the_user_of_the_image(
    name: str, image: str, docker_client: DockerClient, tmp_path: Path
) -> None:
    """Commands run as that user and print nothing else, and the tree can be restored."""
    with layered(image, OF_USERS[name], docker_client) as tag:
        workspace = await DockerWorkspace.open(image=tag, base_commit="base")
        try:
            assert await sh(workspace, "bash -c 'echo done'") == "done\n"
            await sh(workspace, "echo two >a.txt; echo new >b.txt")
            diff, checkpoint = await workspace.diff(), await workspace.checkpoint()
            await workspace.restore(None)
            assert await workspace.diff() == ""
            await workspace.restore(checkpoint)
            assert await workspace.diff() == diff
            assert "+two" in diff
        finally:
            await workspace.close()
        grading = await DockerWorkspace.open(image=tag, base_commit="base", grading=True)
        try:
            assert await sh(grading, "id -u") == "0\n"
            await grading.write("/eval.sh", b"true\n")
        finally:
            await grading.close()
