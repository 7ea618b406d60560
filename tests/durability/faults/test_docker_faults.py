"""Docker failures during an attempt: the daemon, the container, the image."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eval import instances
from tests.durability.faults.program import (
    DOCKER_INSTANCE,
    SLEEP,
    TURNS,
    CountedAnswers,
    Ended,
    Program,
    experiment,
    half_written,
    reported,
    results,
)
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module")
def image(docker_client: Any) -> str:
    """Return the instance's image; skip the test if it is not built."""
    from docker.errors import ImageNotFound

    [instance] = [i for i in instances.load("bundled") if i.instance_id == DOCKER_INSTANCE]
    try:
        docker_client.images.get(instance.image)
    except ImageNotFound:
        pytest.skip(f"{instance.image} is not built: durabench images build")
    return instance.image


@pytest.fixture(scope="module")
def loaded(image: str) -> Iterator[DockerDaemon]:
    """Yield a separate daemon that has the image of the instance."""
    with DockerDaemon() as daemon:
        daemon.load(image)
        yield daemon


@pytest.fixture
def daemon(loaded: DockerDaemon) -> DockerDaemon:
    """Return the separate daemon; start it if the last test stopped it."""
    if not loaded.runs:
        loaded.start()
    return loaded


@pytest.fixture
def answers() -> CountedAnswers:
    """Return answers with a command that is long enough to be interrupted."""
    return CountedAnswers(SLEEP)


@pytest.fixture
def declared(model_server: OpenAIServer) -> dict[str, Any]:
    """Declare one instance in a container."""
    return experiment("docker", [DOCKER_INSTANCE], model_server.url)


def container_in_the_pause(program: Program, client: Any) -> Any:
    """Return the attempt's container while its long command is running."""

    def found() -> Any:
        attempt_id = program.attempt_in_the_pause()
        wanted = {"label": f"durabench.attempt={attempt_id}"}
        for container in client.containers.list(filters=wanted):
            if any(row[-1] == SLEEP for row in container.top()["Processes"]):
                return container
        return None

    return wait_until(found, seconds=90, every_s=0.05)


def as_if_undisturbed(
    ended: Ended, program: Program, answers: CountedAnswers, undisturbed: dict[str, Any]
) -> None:
    """Check that the results equal those of an undisturbed run and that no call was repeated."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert results(program.lake)[DOCKER_INSTANCE] == undisturbed[DOCKER_INSTANCE]
    assert set(answers.asked.values()) == {1}
    assert answers.asked.total() == len(TURNS) == program.billed_calls()
    assert half_written(program.lake) == []


@pytest.mark.parametrize("end", [DockerDaemon.stop, DockerDaemon.kill])
def test_a_daemon_that_stays_down_is_reported_and_the_next_run_resumes(
    end: Callable[[DockerDaemon], None],
    daemon: DockerDaemon,
    declared: dict[str, Any],
    answers: CountedAnswers,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """A daemon that is down ends the run with one line; the next run resumes the recorded steps."""
    program = Program(tmp_path, {**shared_prefect, "DOCKER_HOST": daemon.url}, declared=declared)
    running = program.start()
    client = daemon.client()
    container_in_the_pause(program, client)
    end(daemon)
    reported(running.result(), "infrastructure: Docker stopped answering", "start it")
    assert results(program.lake)[DOCKER_INSTANCE]["outcome"] == "infrastructure"
    daemon.start()
    as_if_undisturbed(program.run(), program, answers, undisturbed)
    assert client.containers.list(all=True) == []
    client.close()


def test_a_killed_container_is_replaced(
    docker_client: Any,
    image: str,
    declared: dict[str, Any],
    answers: CountedAnswers,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """The run resumes in a new container with the work tree of the last recorded step."""
    program = Program(tmp_path, shared_prefect, declared=declared)
    running = program.start()
    killed = container_in_the_pause(program, docker_client)
    killed.kill()
    as_if_undisturbed(running.result(), program, answers, undisturbed)
    wanted = {"label": [f"durabench.attempt={killed.labels['durabench.attempt']}"]}
    assert docker_client.containers.list(all=True, filters=wanted) == []


def test_a_removed_image_is_reported_and_a_later_run_resumes(
    docker_client: Any,
    image: str,
    declared: dict[str, Any],
    answers: CountedAnswers,
    undisturbed: dict[str, Any],
    shared_prefect: dict[str, str],
    tmp_path: Path,
) -> None:
    """A missing image ends the run with one line that names it, before any model call."""
    name = f"durabench-test/removed-{uuid.uuid4().hex[:12]}"
    docker_client.images.get(image).tag(name)
    [instance] = [i for i in instances.load("bundled") if i.instance_id == DOCKER_INSTANCE]
    dataset = tmp_path / "dataset.jsonl"
    dataset.write_text(json.dumps({**instance.row, "image": f"{name}:latest"}))
    program = Program(tmp_path, shared_prefect, declared={**declared, "dataset": str(dataset)})
    try:
        running = program.begin(*program.command)
        container_in_the_pause(program, docker_client)
        running.kill()
        running.wait()
        docker_client.images.remove(name)
        asked = answers.asked.total()
        told = program.durabench(*program.command, code=2)
        assert f"{name}:latest cannot be pulled" in told
        assert answers.asked.total() == asked
        docker_client.images.get(image).tag(name)
        as_if_undisturbed(program.run(), program, answers, undisturbed)
    finally:
        docker_client.images.remove(name)
