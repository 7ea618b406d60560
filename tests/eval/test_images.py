"""Images are found in one query, and built once from the same inputs."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.base_image import BASE_IMAGE, connect
from eval.errors import ImageError
from eval.images import build, check
from eval.types import Instance

MakeInstance = Callable[..., Instance]
MakeTaskRepo = Callable[..., Path]


def test_without_a_daemon_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Docker daemon there is one line that says what to do."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(ImageError, match="no Docker daemon answers: start one or set DOCKER_HOST"):
        connect()


@pytest.mark.docker
class TestWithDocker:
    @pytest.fixture
    def instance(self, make_instance: MakeInstance, docker_client: Any) -> Iterator[Instance]:
        image = "durabench/test-images:tiny"
        yield make_instance(instance_id="tiny__images-1", image=image)
        if docker_client.api.images(name=image):
            docker_client.images.remove(image, force=True)

    @pytest.fixture
    def repo(self, tmp_path: Path, instance: Instance, make_task_repo: MakeTaskRepo) -> Path:
        return make_task_repo(tmp_path / "repo", instance)

    @pytest.mark.parametrize("prefix", ["", "docker.io/"])
    def test_an_image_is_found_by_any_of_its_names(
        self, make_instance: MakeInstance, docker_client: Any, prefix: str
    ) -> None:
        """An image is found with and without the default registry in its name."""
        instance = make_instance(image=prefix + BASE_IMAGE)
        (status,) = check([instance], "dataset", client=docker_client)
        assert status.present
        assert status.image_id == docker_client.images.get(BASE_IMAGE).id

    def test_a_task_repo_s_image_is_built_once(
        self, repo: Path, instance: Instance, docker_client: Any
    ) -> None:
        """A second build of unchanged inputs does nothing; a changed file triggers a rebuild."""
        (before,) = check([instance], str(repo), client=docker_client)
        assert (before.present, before.how) == (False, f"durabench images build --dataset {repo}")
        (built,) = build([instance], repo, client=docker_client)
        (again,) = build([instance], repo, client=docker_client)
        assert (built.action, again.action) == ("built", "current")
        assert check([instance], str(repo), client=docker_client)[0].present
        (repo / "tasks" / instance.instance_id / "calc.py").write_text("add = None\n")
        assert [image.action for image in build([instance], repo, client=docker_client)] == [
            "built"
        ]

    def test_a_failed_build_shows_the_end_of_its_log(
        self, repo: Path, instance: Instance, docker_client: Any
    ) -> None:
        """The error shows the last lines of the build log, and the image does not count as
        present."""
        dockerfile = repo / "tasks" / instance.instance_id / "Dockerfile"
        dockerfile.write_text(f"FROM {BASE_IMAGE}\nRUN echo the reason && exit 3\n")
        with pytest.raises(ImageError, match=r"cannot be built:[\s\S]*the reason\n[\s\S]*code: 3"):
            list(build([instance], repo, client=docker_client))
        assert not check([instance], str(repo), client=docker_client)[0].present

    def test_other_images_are_built_after_a_failure(
        self, repo: Path, instance: Instance, docker_client: Any
    ) -> None:
        """The error comes last, and names the tasks without an image."""
        other = replace(instance, instance_id="broken", image=f"{instance.image}-broken")
        tasks = repo / "tasks"
        shutil.copytree(tasks / instance.instance_id, tasks / "broken")
        (tasks / "broken" / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nRUN exit 3\n")
        with pytest.raises(ImageError, match=r"1 of 2 images cannot be built \(broken\)"):
            list(build([other, instance], repo, client=docker_client))
        assert check([instance], str(repo), client=docker_client)[0].present
