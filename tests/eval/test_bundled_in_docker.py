"""The bundled tasks in their images: no future commits, and the official verdicts."""

import asyncio
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import DockerWorkspace
from eval import images, instances, upstream
from eval.grading import grade
from eval.types import Instance
from tests.eval.official_runner import quick_runner
from tests.samples import Share, shares

pytestmark = [pytest.mark.full, pytest.mark.docker, pytest.mark.slow]

AT_ONCE = 4

IDS = [instance.instance_id for instance in instances.load("bundled")]

CONTROLS = ("gold", "null")
"""The reference patch and no patch."""

Verdicts = dict[tuple[str, str], bool]
"""True if the patch resolves its task, by instance and control."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(share, id=str(share), marks=share.marks) for share in shares(5)],
)
def share(request: pytest.FixtureRequest) -> Share:
    """Return each share of the tasks in turn."""
    found: Share = request.param
    return found


@pytest.fixture(scope="module")
def tasks(share: Share, docker_client: Any) -> list[Instance]:
    """Return the bundled instances of the share, with their images built."""
    ids = set(share.of(IDS))
    chosen = [instance for instance in instances.load("bundled") if instance.instance_id in ids]
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build(chosen, repo, client=docker_client))
    return chosen


def patch_of(task: Instance, control: str) -> str:
    return task.patch if control == "gold" else ""


@pytest.fixture(scope="module")
def ours(tasks: list[Instance]) -> Verdicts:
    """Grade the controls of every task."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(task: Instance, control: str) -> tuple[tuple[str, str], bool]:
        async with slots:
            shell = await DockerWorkspace.open(image=task.image, base_commit=task.base_commit)
            try:
                verdict = await grade(task, patch_of(task, control), shell, timeout_s=120)
            finally:
                await shell.close()
            return (task.instance_id, control), verdict.resolved

    async def every() -> Verdicts:
        cases = [one(task, control) for task in tasks for control in CONTROLS]
        return dict(await asyncio.gather(*cases))

    return asyncio.run(every())


@pytest.fixture(scope="module")
def official(
    tasks: list[Instance], docker_client: Any, tmp_path_factory: pytest.TempPathFactory
) -> Verdicts:
    """Let swebench's own runner grade the controls of every task."""
    from swebench.harness.utils import make_test_spec

    logs = tmp_path_factory.mktemp("logs")

    def resolved(task: Instance, control: str) -> bool:
        prediction = {
            "instance_id": task.instance_id,
            "model_name_or_path": control,
            "model_patch": patch_of(task, control),
        }
        spec = make_test_spec(task.row)
        ended = runner.run_instance(spec, prediction, docker_client, control, timeout=120)
        is_resolved = bool(ended and ended[1][task.instance_id]["resolved"])
        if is_resolved != (control == "gold"):
            for log in logs.rglob(f"{control}/{task.instance_id}/*.*"):  # shown if the test fails
                print(f"{log}:\n{log.read_text(errors='replace')[-3000:]}")
        return is_resolved

    verdicts: Verdicts = {}
    # One control after the other: the official loggers share state by instance.
    with quick_runner(logs) as runner, ThreadPoolExecutor(AT_ONCE) as pool:
        for control in CONTROLS:
            found = pool.map(resolved, tasks, [control] * len(tasks))
            verdicts |= {
                (task.instance_id, control): verdict
                for task, verdict in zip(tasks, found, strict=True)
            }
    return verdicts


def test_gold_resolves_every_task_and_null_none(tasks: list[Instance], ours: Verdicts) -> None:
    """In its image, the reference patch resolves every task and the empty patch resolves none."""
    assert len(ours) == len(CONTROLS) * len(tasks)
    assert all(resolved == (control == "gold") for (_, control), resolved in ours.items())


def test_verdicts_equal_the_official_runners(ours: Verdicts, official: Verdicts) -> None:
    """swebench's `run_instance` gives the same verdicts on the same images and patches."""
    assert ours == official


async def test_no_image_holds_anything_newer_than_its_base(
    tasks: list[Instance], tmp_path: Path
) -> None:
    """Every git object in an image is reachable from the base commit, and no bundle is left."""
    for task in tasks:
        repository = upstream.upstream(task.repo, tmp_path)
        allowed = git_objects(repository, f"rev-list --objects {task.base_commit}")
        later = git_objects(repository, "rev-list --objects --all") - allowed
        assert later, "the upstream has no commit after the base commit"
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
    done = subprocess.run(
        ["git", *command.split()], cwd=repository, capture_output=True, text=True, check=True
    )
    return {line.split()[0] for line in done.stdout.splitlines()}
