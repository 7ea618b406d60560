"""The history of a repository in Go, and of one in Node.js, becomes a dataset, which is run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from eval import images, instances, upstream
from flows.storage.images import CACHE_VARIABLE
from tests.journeys.command_line import Terminal
from tests.journeys.test_mining_a_repository import Repository

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.timeout(900)]

TASKS = {task.instance_id: task for task in instances.load("bundled-polyglot")}
HISTORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "durabench__byteflow-2": ("Forget what was before a pause", ()),
    # Debian's package of Node.js has no npm.
    "durabench__routelet-2": (
        "Encode parameters",
        ("--verify", "node --test --test-reporter=tap"),
    ),
}
"""The last change of each repository that is a task, and options, by its bundled task."""

MakeImage = Callable[[str], str]


@pytest.fixture
def make_image(docker_client: DockerClient) -> Iterator[MakeImage]:
    """Yield a function that returns an image with the tools of a bundled task and no repository."""
    made: list[str] = []

    def make(instance_id: str) -> str:
        repo = instances.task_repo("bundled-polyglot")
        assert repo is not None
        task, name = TASKS[instance_id], f"durabench-test/tools-{instance_id}"
        list(images.build([task], repo, client=docker_client))
        container = docker_client.containers.run(task.image, "rm -rf /testbed", detach=True)
        assert container.wait()["StatusCode"] == 0, container.logs()
        container.commit(name, "latest", conf={"WorkingDir": "/"})
        container.remove()
        made.append(name)
        return f"{name}:latest"

    yield make
    for name in made:
        docker_client.images.remove(name, force=True)


@pytest.mark.journey("mine")
@pytest.mark.parametrize("instance_id", HISTORIES)
def test_a_history_is_mined_and_run(
    instance_id: str, make_image: MakeImage, docker_client: DockerClient, tmp_path: Path
) -> None:
    """It gives the tests of the bundled task, which its reference patch resolves."""
    terminal = Terminal(tmp_path, {CACHE_VARIABLE: str(tmp_path / "cache")}, limit_s=600)
    bundled = TASKS[instance_id]
    name = bundled.repo.rpartition("/")[2]
    repository = Repository(tmp_path / name)
    series = upstream.series(bundled.repo)
    assert series is not None
    repository.git("am", "-q", *map(str, sorted(series.glob("*.patch"))))

    subject, options = HISTORIES[instance_id]
    image = make_image(instance_id)
    printed = terminal.durabench("mine", name, "--image", image, "--limit", "1", *options)
    assert f"{subject}: " in printed
    [task] = instances.load(str(tmp_path / f"{name}-tasks"))
    assert (set(task.fail_to_pass), set(task.pass_to_pass)) == (
        set(bundled.fail_to_pass),
        set(bundled.pass_to_pass),
    )
    arms = [{"name": arm, "agent": arm} for arm in ("gold", "null")]
    experiment = {"name": "e", "dataset": f"{name}-tasks", "arms": arms, "environment": "docker"}
    ran = terminal.durabench("run", terminal.write("e.yaml", experiment))
    docker_client.images.remove(task.image, force=True)
    assert f"gold · {task.instance_id}: resolved" in ran
    assert f"null · {task.instance_id}: unresolved" in ran
