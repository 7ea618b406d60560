"""Images in which no arm can work, or in which no test can run."""

import json
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from eval import images, instances
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.experiments import declaration
from reports.analysis.standing import read_standings
from tests.flows.conftest import rows
from tests.unfit_images import OF_USERS, UNFIT_LAYERS, layered

INSTANCE = instances.load("bundled")[0]
SKILLED = {"provider": "simulated", "skill": 1.0, "wrong_anchors": 0, "overspecified_anchors": 0}
NO_PYTHON = "RUN rm -f $(which -a python python3)"


def experiment(image: str, folder: Path, *agents: str) -> declaration.Experiment:
    dataset = folder / "rows.jsonl"
    dataset.write_text(json.dumps({**INSTANCE.row, "image": image}, default=str))
    arms: list[dict[str, Any]] = [
        {"name": agent, "agent": agent, **({} if agent in ("gold", "null") else {"model": SKILLED})}
        for agent in agents
    ]
    content = {"name": "x", "dataset": str(dataset), "environment": "docker", "arms": arms}
    return declaration.parse(content, "x")


@pytest.fixture
def image(docker_client: DockerClient) -> str:
    """Return the name of the image of the instance."""
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([INSTANCE], repo, client=docker_client))
    return INSTANCE.image


@pytest.mark.docker
@pytest.mark.usefixtures("prefect")
async def test_nothing_is_bought_in_an_image_that_cannot_work(
    image: str, tmp_path: Path, docker_client: DockerClient
) -> None:
    """Every arm ends with the same line, in every run and without a model call."""
    agents = ("gold", "null", "mini", "mini_retry", "loop", "durable", "staged")
    layer, reason = UNFIT_LAYERS["no git"]
    lake = str(tmp_path / "lake")
    with layered(image, layer, docker_client) as tag:
        for _ in (1, 2):
            with pytest.raises(IncompleteRun, match="7 of 7 cells ended as infrastructure"):
                await benchmark(experiment(tag, tmp_path, *agents), lake)
            [detail] = {row["detail"] for row in rows(lake, "attempts")}
            assert reason in detail
            assert not any(row["kind"] == "model" for row in rows(lake, "steps"))


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.usefixtures("prefect")
async def test_an_image_of_a_user_is_solved_and_graded(
    image: str, tmp_path: Path, docker_client: DockerClient
) -> None:
    """A patch of an arm that works as the image's user is graded as any other patch."""
    lake = str(tmp_path / "lake")
    with layered(image, OF_USERS["its own tree"], docker_client) as tag:
        await benchmark(experiment(tag, tmp_path, "gold", "mini", "durable"), lake)
    assert {row["outcome"] for row in rows(lake, "evaluations")} == {"resolved"}


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.usefixtures("prefect")
async def test_no_arm_accepts_what_no_test_has_proven(
    image: str, tmp_path: Path, docker_client: DockerClient
) -> None:
    """Without a test runner, an arm that judges itself says so, and the status shows it."""
    lake = str(tmp_path / "lake")
    with layered(image, NO_PYTHON, docker_client) as tag:
        await benchmark(experiment(tag, tmp_path, "durable", "staged"), lake)
    attempts = rows(lake, "attempts")
    assert [row["outcome"] for row in attempts] == ["submitted"] * 2
    assert "accepted" not in {row["agent_verdict"] for row in attempts}
    assert all(
        "unproven: " in row["detail"] for row in read_standings(tmp_path / "lake", ["x"])["x"].cells
    )
