"""The bundled tasks in their images: nothing of the future in them, and the official verdicts."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import DockerWorkspace
from eval import images, instances, upstream
from eval.grading import grade
from eval.types import Evaluation, Instance

pytestmark = [pytest.mark.docker, pytest.mark.slow]

WORKERS = 8
"""The official runner waits 15 s for each container to stop: many can wait at once."""


@pytest.fixture(scope="module")
def tasks(docker_client: Any) -> list[Instance]:
    """Every bundled instance, its image built."""
    chosen = instances.load("bundled")
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build(chosen, repo, client=docker_client))
    return chosen


def patches(tasks: list[Instance]) -> Iterator[tuple[Instance, str, str]]:
    """The reference patch and none, of every instance."""
    for task in tasks:
        yield task, "gold", task.patch
        yield task, "null", ""


@pytest.fixture(scope="module")
def ours(tasks: list[Instance]) -> dict[tuple[str, str], Evaluation]:
    """Our verdicts, by instance and patch."""
    slots = asyncio.Semaphore(4)

    async def one(task: Instance, name: str, patch: str) -> tuple[tuple[str, str], Evaluation]:
        async with slots:
            shell = await DockerWorkspace.open(image=task.image, base_commit=task.base_commit)
            try:
                return (task.instance_id, name), await grade(task, patch, shell, timeout_s=120)
            finally:
                await shell.close()

    async def every() -> dict[tuple[str, str], Evaluation]:
        return dict(await asyncio.gather(*(one(*case) for case in patches(tasks))))

    return asyncio.run(every())


@pytest.fixture(scope="module")
def official(
    tasks: list[Instance], docker_client: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], bool]:
    """swebench's own verdicts, by instance and patch."""
    from swebench.harness import run_evaluation
    from swebench.harness.utils import make_test_spec

    logs = tmp_path_factory.mktemp("logs")

    def one(case: tuple[Instance, str, str]) -> tuple[tuple[str, str], bool]:
        task, name, patch = case
        prediction = {
            "instance_id": task.instance_id,
            "model_name_or_path": name,
            "model_patch": patch,
        }
        spec = make_test_spec(task.row)
        ended = run_evaluation.run_instance(spec, prediction, docker_client, name, timeout=120)
        resolved = bool(ended and ended[1][task.instance_id]["resolved"])
        return (task.instance_id, name), resolved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_evaluation, "RUN_EVALUATION_LOG_DIR", logs)
        # Gold first, then null: the official logger shares its state by instance id.
        verdicts: dict[tuple[str, str], bool] = {}
        for name in ("gold", "null"):
            cases = [case for case in patches(tasks) if case[1] == name]
            with ThreadPoolExecutor(WORKERS) as pool:
                verdicts.update(pool.map(one, cases))
        return verdicts


def test_gold_resolves_every_task_and_null_none(
    ours: dict[tuple[str, str], Evaluation],
) -> None:
    """The two controls, over all bundled tasks, in containers."""
    assert {name for (_, name), verdict in ours.items() if verdict.resolved} == {"gold"}
    assert all(verdict.resolved == (name == "gold") for (_, name), verdict in ours.items())


def test_verdicts_equal_the_official_runners(
    ours: dict[tuple[str, str], Evaluation], official: dict[tuple[str, str], bool]
) -> None:
    """The same images and patches, swebench's `run_instance` on one side."""
    assert {key: verdict.resolved for key, verdict in ours.items()} == official


async def test_no_image_holds_anything_newer_than_its_base(
    tasks: list[Instance], tmp_path: Path
) -> None:
    """Every git object in an image is reachable from the base commit, wherever git keeps it."""
    for task in tasks:
        repository = upstream.upstream(task.repo, tmp_path)
        allowed = git_objects(repository, f"rev-list --objects {task.base_commit}")
        later = git_objects(repository, "rev-list --objects --all") - allowed
        assert later, "the history goes on after the base commit"
        shell = await DockerWorkspace.open(image=task.image, base_commit=task.base_commit)
        try:
            every = "git cat-file --batch-all-objects --batch-check='%(objectname)'"
            found = await shell.run(every, timeout_s=30)
            bundle = await shell.run(
                "find / -xdev -name '*.bundle' -not -path '/proc/*'", timeout_s=30
            )
        finally:
            await shell.close()
        assert set(found.output.split()) <= allowed
        assert bundle.output == ""


def git_objects(repository: Path, command: str) -> set[str]:
    import subprocess

    done = subprocess.run(
        ["git", *command.split()], cwd=repository, capture_output=True, text=True, check=True
    )
    return {line.split()[0] for line in done.stdout.splitlines()}
