"""Images whose work tree or history differs from the base commit, as in many official images."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from eval import images, instances
from flows.benchmark import benchmark
from flows.experiments import declaration
from tests.flows.conftest import rows

INSTANCE = instances.load("bundled")[0]
SKILLED = {"provider": "simulated", "skill": 1.0, "wrong_anchors": 0, "overspecified_anchors": 0}

CHANGES = {
    "uncommitted": "echo changed >>README.md",
    "later commits": (
        "git checkout -qb fix && echo changed >>README.md && "
        "git -c user.name=a -c user.email= commit -qam x && git checkout -q main"
    ),
    "commit on top": "echo changed >>README.md && git -c user.name=a -c user.email= commit -qam x",
}


@pytest.fixture(
    params=[
        pytest.param(CHANGES["uncommitted"], marks=pytest.mark.full, id="uncommitted"),
        pytest.param(CHANGES["later commits"], id="later commits"),
        pytest.param(CHANGES["commit on top"], marks=pytest.mark.full, id="commit on top"),
    ]
)
def image(request: pytest.FixtureRequest, docker_client: DockerClient) -> Iterator[str]:
    """Yield an image of the instance with other changes."""
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([INSTANCE], repo, client=docker_client))
    tag = "durabench-test/changed:latest"
    container = docker_client.containers.run(
        INSTANCE.image, ["bash", "-c", f"cd /testbed && {request.param}"], detach=True
    )
    assert container.wait()["StatusCode"] == 0, container.logs()
    container.commit(tag)
    container.remove()
    yield tag
    docker_client.images.remove(tag, force=True)


@pytest.mark.docker
@pytest.mark.usefixtures("prefect")
@pytest.mark.full
async def test_no_arm_answers_for_the_changes_of_the_image(
    image: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`null` submits nothing. The others submit no hunk of the image. The arms that test their
    change on a fresh copy accept it. Later commits are removed first, and attempts record that."""
    dataset = tmp_path / "rows.jsonl"
    dataset.write_text(json.dumps({**INSTANCE.row, "image": image}, default=str))
    arms: list[dict[str, Any]] = [{"name": each, "agent": each} for each in ("gold", "null")]
    for agent in ("mini", "mini_retry", "durable", "staged"):
        arms.append({"name": agent, "agent": agent, "model": SKILLED})
    content = {"name": "x", "dataset": str(dataset), "environment": "docker", "arms": arms}
    await benchmark(declaration.parse(content, "x"), str(tmp_path / "lake"))
    lake = str(tmp_path / "lake")
    patches = {row["model_name_or_path"]: row["model_patch"] for row in rows(lake, "predictions")}
    attempts = {row["attempt_id"]: row for row in rows(lake, "attempts")}
    outcomes = {
        attempts[row["attempt_id"]]["agent"]: row["outcome"] for row in rows(lake, "evaluations")
    }
    assert patches.pop("null") == ""
    assert outcomes.pop("null") == "unresolved"
    assert set(outcomes.values()) == {"resolved"}
    assert [arm for arm, patch in patches.items() if "README.md" in patch] == []
    has_later = "fix" in request.node.callspec.params["image"]
    removed = ["1 later commits", "refs/heads/fix"] if has_later else []
    assert {tuple(row["git_removed"]) for row in attempts.values()} == {tuple(removed)}
    by_agent = {row["agent"]: row for row in attempts.values()}
    assert by_agent["durable"]["agent_verdict"] == by_agent["staged"]["agent_verdict"] == "accepted"
    assert not any(row["scope"].startswith("try-2") for row in rows(lake, "steps"))
