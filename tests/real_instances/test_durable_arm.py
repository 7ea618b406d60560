"""The durable arm on real SWE-bench instances, with an author that is right at once or later.

The right patch is submitted in every case, the repository's own runner opens the gates, and the
official script resolves the instance.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from agent.arms.durable import arm
from agent.arms.durable.options import DurableOptions
from agent.session.session import Session
from agent.types import Outcome, Task
from agent.workspaces import DockerWorkspace, container
from eval.grading import grade
from eval.types import Evaluation, Instance
from flows.experiments.cells import runner_of_instance
from tests.agent.arms.durable.conftest import RoleModel
from tests.real_instances.authors import NEW_TESTS, author
from tests.real_instances.images import SOURCES, Source, instance_of

pytestmark = [pytest.mark.docker, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

RUNNERS = {
    "pallets__flask-5014": "pytest",
    "sympy__sympy-24909": "sympy",
    "django__django-16595": "unittest",
}


@dataclass(frozen=True)
class Containers:
    """Opens a container of an image for each workspace of an attempt."""

    instance: Instance
    network: bool = False

    @property
    def root(self) -> str:
        return container.ROOT

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[DockerWorkspace]:
        workspace = await DockerWorkspace.open(
            image=image or self.instance.image, base_commit=self.instance.base_commit
        )
        try:
            yield workspace
        finally:
            await workspace.close()


@pytest.fixture(scope="module", params=SOURCES, ids=str)
def instance(
    request: pytest.FixtureRequest,
    shared_data: Path,
    docker_client: DockerClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Instance]:
    """A row with an image."""
    source: Source = request.param
    folder = tmp_path_factory.mktemp(source.instance_id)
    with instance_of(source, shared_data, folder, docker_client) as made:
        yield made


async def solve(instance: Instance, preset: str, model: RoleModel) -> Outcome:
    """Run the durable arm in containers."""
    task = Task(
        instance.instance_id,
        instance.problem_statement,
        instance.base_commit,
        instance.patch,
        runner=runner_of_instance(instance),
    )
    options = DurableOptions.model_validate({"profile": {"preset": preset}})
    async with Session.start(
        attempt_id="attempt", models={"": model}, workspaces=Containers(instance)
    ) as session:
        return await arm.solve(task, session, options)


def changed_lines(patch: str) -> list[str]:
    """The lines that a patch adds and removes."""
    return [line for line in patch.splitlines() if line.startswith(("+", "-"))]


def runs_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs behind the accepted change: of the new test, and of related tests."""
    if report["preset"] == "lean":
        [chosen] = [change for change in report["changes"] if change["chosen"]]
        return list(chosen["evidence"])
    return list(report["finals"][-1]["evidence"])


@pytest.mark.parametrize(("preset", "right_at"), [("lean", 3), ("full", 1)])
async def test_the_right_patch_is_submitted(instance: Instance, preset: str, right_at: int) -> None:
    """Each wrong try is rejected by the new test, run as the repository runs its tests."""
    outcome = await solve(instance, preset, author(instance, right_at=right_at))
    report = outcome.report
    assert report is not None
    assert changed_lines(outcome.patch) == changed_lines(instance.patch)
    stated = ("workflow_status", "agent_verdict", "reproduced")
    assert [report[name] for name in stated] == ["completed", "accepted", True], outcome.detail
    assert report["test_runner"] == {
        "command": runner_of_instance(instance).command,
        "works": True,
        "problem": "",
    }
    assert runner_of_instance(instance).adapter == RUNNERS[instance.instance_id]
    assert report["anchor"]["path"] == NEW_TESTS[instance.instance_id].path
    new_test, *related = runs_of(report)
    assert (new_test["exit_code"], new_test["failed"], new_test["errors"]) == (0, [], [])
    assert new_test["passed"]
    assert all(run["passed"] for run in related)
    assert related
    assert tries_of(report) == [False] * (right_at - 1) + [True]


def tries_of(report: dict[str, Any]) -> list[bool]:
    """True for each try that was accepted, in order."""
    if report["preset"] == "lean":
        return [not change["closed_gates"] for change in report["changes"]]
    candidates = [each for step in report["steps"] for each in step["candidates"]]
    return [not candidate["broken"] for candidate in candidates][:3]


async def test_the_official_script_agrees(instance: Instance) -> None:
    """The row's own tests distinguish the right patch from none, also on this image.

    Some of the tests that have to pass are missing in a release that is older than the base commit.
    """
    right, none = [await graded(instance, patch) for patch in (instance.patch, "")]
    assert set(right.fail_to_pass_success) == set(instance.fail_to_pass)
    assert set(none.fail_to_pass_failure) == set(instance.fail_to_pass)
    assert right.pass_to_pass_failure == none.pass_to_pass_failure
    assert len(right.pass_to_pass_success) > 0.9 * len(instance.pass_to_pass)


async def graded(instance: Instance, patch: str) -> Evaluation:
    """The verdict of the official script in a fresh container."""
    async with Containers(instance).open("", image="", goes_on=False) as workspace:
        return await grade(instance, patch, workspace)
