"""Our verdicts are those of swebench's own `run_instance`, on the same images and patches."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces.container import DockerWorkspace
from eval.grading import grade
from eval.images import build
from eval.types import Evaluation, Instance

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SHOW_ENVIRONMENT = "pwd\numask\ncommand -v python git\nenv | sort | sed 's/^/environment: /'\n"


@dataclass(frozen=True)
class Case:
    """One patch on one image, graded by both."""

    instance: Instance
    patch: str
    expected: str


@dataclass(frozen=True)
class Official:
    """What the official runner left: its report if it wrote one, and the test log."""

    report: dict[str, Any] | None
    log: str


@pytest.fixture(scope="module")
def cases(make_instance: Callable[..., Instance], gold: str) -> dict[str, Case]:
    """Six endings; a name each, for the official logger shares state by instance id."""
    script = make_instance().eval_script.replace("git status\n", SHOW_ENVIRONMENT)

    def case(name: str, patch: str, expected: str, tag: str = "broken") -> Case:
        image = f"durabench/test-official:{tag}"
        instance = make_instance(instance_id=f"tiny__{name}", image=image, eval_script=script)
        return Case(instance, patch, expected)

    partial = gold + gold.replace("calc.py", "other.py")
    worse = gold.replace("+    return a + b", "+    return 5")
    return {
        "gold": case("gold", gold, "resolved"),
        "null": case("null", "", "unresolved"),
        "malformed": case("malformed", "this is no diff\n", "patch_failed"),
        "partial": case("partial", partial, "patch_failed"),
        "already": case("already", gold, "resolved", tag="fixed"),
        "worse": case("worse", worse, "unresolved"),
    }


@pytest.fixture(scope="module")
def images(
    cases: dict[str, Case],
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
    make_task_repo: Callable[..., Path],
) -> Iterator[None]:
    """The images of the cases: the broken package, and the one that is repaired already."""
    root = tmp_path_factory.mktemp("official")
    instances = [cases["gold"].instance, cases["already"].instance]
    make_task_repo(root, instances[0])
    make_task_repo(root, instances[1], repaired=True)
    list(build(instances, root, client=docker_client))
    yield
    for instance in instances:
        docker_client.images.remove(instance.image, force=True)


@pytest.fixture(scope="module")
def official(
    cases: dict[str, Case],
    images: None,
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Official]:
    """Every case through the official runner, at once: each waits 15 s for its container."""
    from swebench.harness import run_evaluation
    from swebench.harness.utils import make_test_spec

    logs = tmp_path_factory.mktemp("logs")

    def run(case: Case) -> Official:
        prediction = {
            "instance_id": case.instance.instance_id,
            "model_name_or_path": "test",
            "model_patch": case.patch,
        }
        spec = make_test_spec(case.instance.row)
        ended = run_evaluation.run_instance(spec, prediction, docker_client, "run", timeout=120)
        log = logs / "run" / "test" / case.instance.instance_id / "test_output.txt"
        report = ended[1][case.instance.instance_id] if ended else None
        return Official(report, log.read_text() if log.exists() else "")

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(cases)) as pool:
        patch.setattr(run_evaluation, "RUN_EVALUATION_LOG_DIR", logs)
        return dict(zip(cases, pool.map(run, cases.values()), strict=True))


@pytest.fixture(scope="module")
def ours(cases: dict[str, Case], images: None) -> dict[str, Evaluation]:
    """Every case through our own grading, each in a container of its own."""

    async def run(case: Case) -> Evaluation:
        shell = await DockerWorkspace.open(
            image=case.instance.image, root="/testbed", base_commit="HEAD"
        )
        try:
            return await grade(case.instance, case.patch, shell, timeout_s=120)
        finally:
            await shell.close()

    async def run_all() -> list[Evaluation]:
        return [await run(case) for case in cases.values()]

    return dict(zip(cases, asyncio.run(run_all()), strict=True))


@pytest.mark.parametrize("name", ["gold", "null", "malformed", "partial", "already", "worse"])
def test_the_verdict_is_the_official_one(
    name: str,
    cases: dict[str, Case],
    official: dict[str, Official],
    ours: dict[str, Evaluation],
) -> None:
    """Resolved or not, test by test; a patch that applies nowhere has no official report."""
    theirs, mine = official[name].report, ours[name]
    assert mine.outcome == cases[name].expected
    if theirs is None:
        assert mine.outcome == "patch_failed"
        return
    assert mine.resolved == theirs["resolved"]
    tests = theirs["tests_status"]
    assert list(mine.fail_to_pass_success) == tests["FAIL_TO_PASS"]["success"]
    assert list(mine.fail_to_pass_failure) == tests["FAIL_TO_PASS"]["failure"]
    assert list(mine.pass_to_pass_success) == tests["PASS_TO_PASS"]["success"]
    assert list(mine.pass_to_pass_failure) == tests["PASS_TO_PASS"]["failure"]


def test_the_script_runs_in_the_official_environment(
    official: dict[str, Official], ours: dict[str, Evaluation]
) -> None:
    """No profile, no BASH_ENV and no variable of the workspace reaches the tests."""

    def environment(log: str) -> set[str]:
        lines = [line for line in log.splitlines() if line.startswith("environment: ")]
        return {line for line in lines if not line.startswith("environment: HOSTNAME=")}

    theirs, mine = environment(official["gold"].log), environment(ours["gold"].log)
    assert "environment: FROM_IMAGE=yes" in theirs
    assert mine == theirs
