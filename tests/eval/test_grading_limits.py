"""Tests of an instance that reach a limit of their container: no verdict on the patch."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import DockerWorkspace, ResourceLimits
from eval import grading, images
from eval.types import Evaluation, Instance

pytestmark = pytest.mark.docker

MB = 2**20
SMALL = ResourceLimits(memory_bytes=128 * MB, pids=60, disk_bytes=100 * MB)
EAT = "python3 -c 'x = bytearray(300 * 2**20)'"
FORK = "python3 -c 'import os; [os.fork() or os.pause() for _ in range(99)]'"
RUN = "python -m pytest"

Grade = Callable[..., Any]


@pytest.fixture(scope="module")
def image(
    make_instance: Callable[..., Instance],
    make_task_repo: Callable[..., Path],
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Yield an image of the broken package."""
    root = tmp_path_factory.mktemp("limits")
    tag = f"durabench/test-limits:{secrets.token_hex(4)}"
    instance = make_instance(image=tag)
    make_task_repo(root, instance)
    list(images.build([instance], root, client=docker_client))
    yield tag
    docker_client.images.remove(tag, force=True)


@pytest.fixture
def grade(make_instance: Callable[..., Instance], image: str) -> Grade:
    """Return a function that grades a patch in a small container, after a command."""

    async def graded(before: str, patch: str) -> Evaluation:
        script = make_instance().eval_script.replace(RUN, f"{before} {RUN}")
        instance = replace(make_instance(eval_script=script, image=image), base_commit="HEAD")
        workspace = await DockerWorkspace.open(image=image, base_commit="HEAD", limits=SMALL)
        try:
            return await grading.grade(instance, patch, workspace, timeout_s=60)
        finally:
            await workspace.close()

    return graded


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        pytest.param(
            f"{EAT} &&",
            "the tests reached the memory limit of 0.125 GB: raise resources.memory_gb",
            id="memory",
        ),
        pytest.param(
            f"{FORK} &&",
            "the tests reached the limit of 60 processes: raise resources.pids",
            id="pids",
        ),
        pytest.param(
            "dd if=/dev/zero of=/var/big bs=1M &&",
            "the tests reached the disk limit of 0.0977 GB: raise resources.disk_gb",
            id="disk",
        ),
    ],
)
@pytest.mark.parametrize("is_gold", [True, pytest.param(False, marks=pytest.mark.full)])
async def test_tests_that_reach_a_limit_say_nothing_of_the_patch(
    grade: Grade, gold: str, before: str, reason: str, *, is_gold: bool
) -> None:
    """The reason names the limit and the remedy."""
    evaluation = await grade(before, gold if is_gold else "")
    assert (evaluation.outcome, evaluation.reason) == ("infrastructure", reason)
    assert not evaluation.resolved
    assert evaluation.is_limited


@pytest.mark.full
async def test_a_bystander_that_is_killed_leaves_a_resolved_patch_resolved(
    grade: Grade, gold: str
) -> None:
    """All tests passed in spite of it. A patch that fails some may have failed because of it."""
    beside = f"(setsid {EAT} &); sleep 1;"
    assert [(await grade(beside, patch)).outcome for patch in (gold, "")] == [
        "resolved",
        "infrastructure",
    ]
