"""Our verdicts equal swebench's own on the same images and patches."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces.container import OFFLINE_ENVIRONMENT, DockerWorkspace
from eval import harness
from eval.grading import grade
from eval.images import build
from eval.types import CommandOutput, Evaluation, Instance
from tests.eval.official_cases import FILES, REPOSITORY, Case, all_cases
from tests.eval.official_runner import quick_runner

pytestmark = [pytest.mark.docker, pytest.mark.slow]

AT_ONCE = 8

ALWAYS = ("gold", "null", "partial", "shifted", "crlf_file", "printed", "exits", "slow")
"""Cases that every test run compares."""

WITHOUT_TESTS = 12
"""Upper limit of the cases without test output of the official runner."""

NAMES = [
    "gold",
    "null",
    "empty",
    "malformed",
    "surrogate",
    "partial",
    "already",
    "no_git",
    "worse",
    "shifted",
    "cut",
    "crlf_file",
    "crlf_lost",
    "crlf_patch",
    "latin_context",
    "latin_tests",
    "binary",
    "binary_lost",
    "mode_only",
    "huge",
    "outside",
    "hook",
    "printed",
    "syntax",
    "exits",
    "kills",
    "closes",
    "ids",
    "skips",
    "fail_only",
    "around",
    "no_end",
    "twice",
    "bad_code",
    "bytes",
    "memory",
    "slow",
]

Tests = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Applied:
    """The result of applying a patch: the commands that failed, and `is_applied` if one
    succeeded."""

    failed: tuple[str, ...]
    is_applied: bool


@dataclass(frozen=True)
class Official:
    """The output of the official runner: its report, if it wrote one, and its two logs."""

    report: dict[str, Any] | None
    tests: str
    log: str

    @property
    def applied(self) -> Applied:
        failed = re.findall("Failed to apply patch to container: (.*)", self.log)
        return Applied(tuple(failed), ">>>>> Applied Patch" in self.log)


@dataclass
class Recording:
    """A workspace that records the exit code of each command."""

    inner: DockerWorkspace
    ended: list[tuple[str, int]] = field(default_factory=list)

    @property
    def environment(self) -> str:
        return self.inner.environment

    @property
    def limits_reached(self) -> Mapping[str, str]:
        return self.inner.limits_reached

    @property
    def root(self) -> str:
        return self.inner.root

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandOutput:
        done = await self.inner.run(command, timeout_s=timeout_s, max_output_bytes=max_output_bytes)
        self.ended.append((command, done.exit_code))
        return done

    async def write(self, path: str, content: bytes) -> None:
        await self.inner.write(path, content)

    @property
    def applied(self) -> Applied:
        tried = [*harness.apply_commands(), "git apply --check --reverse"]
        codes = {
            name: code
            for command, code in self.ended
            for name in tried
            if command.endswith(f" {name} /tmp/patch.diff")
        }
        failed = [name for name in harness.apply_commands() if codes.get(name)]
        return Applied(tuple(failed), 0 in codes.values())


@dataclass(frozen=True)
class Ours:
    """Our verdict, and how our grading applied the patch."""

    evaluation: Evaluation
    applied: Applied


@pytest.fixture(scope="module")
def cases(every_case: dict[str, Case], request: pytest.FixtureRequest) -> dict[str, Case]:
    """Return the cases of the selected tests. The reference patch is always one of them."""
    module = request.node.nodeid
    parameters = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.nodeid.startswith(f"{module}::")
        and hasattr(item, "callspec")
    ]
    chosen = {"gold", *(each["name"] for each in parameters if "name" in each)}
    return {name: case for name, case in every_case.items() if name in chosen}


@pytest.fixture(scope="module")
def every_case(
    make_instance: Callable[..., Instance],
    make_task_repo: Callable[..., Path],
    gold: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("tree")
    instance = make_instance(image=f"{REPOSITORY}:tree")
    folder = fill(make_task_repo(root, instance), instance)
    (folder / "Dockerfile").unlink()
    found = all_cases(make_instance, folder, gold)
    assert list(found) == NAMES
    return found


def fill(root: Path, instance: Instance) -> Path:
    """Add the files that only some patches need to a task. Return the task's folder."""
    folder = root / "tasks" / instance.instance_id
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("COPY *.py", "COPY *.py *.bin"))
    return folder


@pytest.fixture(scope="module")
def images(
    every_case: dict[str, Case],
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
    make_task_repo: Callable[..., Path],
) -> Iterator[None]:
    """Build the images of the cases: the broken package, the repaired one, and one without git."""
    root = tmp_path_factory.mktemp("official")
    broken, fixed, no_git = (every_case[name].instance for name in ("gold", "already", "no_git"))
    fill(make_task_repo(root, broken), broken)
    fill(make_task_repo(root, fixed, repaired=True), fixed)
    folder = fill(make_task_repo(root, no_git), no_git)
    with (folder / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("RUN rm /usr/bin/git\n")
    list(build([broken, fixed, no_git], root, client=docker_client))
    yield
    for instance in (broken, fixed, no_git):
        docker_client.images.remove(instance.image, force=True)


@pytest.fixture(scope="module")
def official(
    cases: dict[str, Case],
    images: None,
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Official]:
    """Run every selected case through the official runner."""
    from swebench.harness.utils import make_test_spec

    logs = tmp_path_factory.mktemp("logs")

    def run(case: Case) -> Official:
        name = case.instance.instance_id
        prediction = {
            "instance_id": name,
            "model_name_or_path": "test",
            "model_patch": case.patch,
        }
        spec = make_test_spec(case.instance.row)
        ended = runner.run_instance(spec, prediction, docker_client, "run", timeout=case.timeout_s)
        folder = logs / "run" / "test" / name
        tests, log = folder / "test_output.txt", folder / "run_instance.log"
        return Official(
            ended[1][name] if ended else None,
            tests.read_text() if tests.exists() else "",
            log.read_text(),
        )

    with quick_runner(logs) as runner, ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(cases, pool.map(run, cases.values()), strict=True))


@pytest.fixture(scope="module")
def ours(cases: dict[str, Case], images: None) -> dict[str, Ours]:
    """Run every selected case through our own grading, each in its own container."""

    async def run(case: Case, slots: asyncio.Semaphore) -> Ours:
        async with slots:
            workspace = await DockerWorkspace.open(
                image=case.instance.image, root="/testbed", base_commit="HEAD", grading=True
            )
            shell = Recording(workspace)
            try:
                verdict = await grade(
                    case.instance, case.patch or "", shell, timeout_s=case.timeout_s
                )
            finally:
                await workspace.close()
            return Ours(verdict, shell.applied)

    async def run_all() -> list[Ours]:
        slots = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(run(case, slots) for case in cases.values()))

    return dict(zip(cases, asyncio.run(run_all()), strict=True))


OFFICIAL_ERRORS = {
    "patch_failed": ("Patch Apply Failed", "UnicodeEncodeError"),
    # The official runner calls `kill`, which the image lacks.
    "timeout": ("Test timed out", 'exec: "kill"'),
    "unresolved": ("UnicodeDecodeError",),
}
"""Errors of the official runner that leave no report, by our outcome."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ALWAYS else pytest.mark.full) for n in NAMES]
)
def test_the_verdict_is_the_official_one(
    name: str,
    cases: dict[str, Case],
    official: dict[str, Official],
    ours: dict[str, Ours],
) -> None:
    """Outcome, results of single tests and the commands that applied the patch equal the official
    ones."""
    theirs, mine = official[name], ours[name].evaluation
    assert mine.outcome == cases[name].expected
    assert ours[name].applied == theirs.applied
    if theirs.report is None:
        assert any(error in theirs.log for error in OFFICIAL_ERRORS[mine.outcome])
        assert not mine.resolved
        assert _tests(mine) == {}
    else:
        assert mine.resolved == theirs.report["resolved"]
        assert mine.outcome == ("resolved" if mine.resolved else "unresolved")
        if name != "kills":  # our log ends with the shell, and theirs with the tests that go on
            assert theirs.report.get("infra_failure_reason", "") in mine.reason
        # The official runner reads no test results for a prediction that is null.
        if not theirs.report["patch_is_None"]:
            assert _tests(mine) == _without_empty(theirs.report.get("tests_status", {}))


def _tests(evaluation: Evaluation) -> Tests:
    return _without_empty(
        {
            "FAIL_TO_PASS": {
                "success": list(evaluation.fail_to_pass_success),
                "failure": list(evaluation.fail_to_pass_failure),
            },
            "PASS_TO_PASS": {
                "success": list(evaluation.pass_to_pass_success),
                "failure": list(evaluation.pass_to_pass_failure),
            },
        }
    )


def _without_empty(status: Tests) -> Tests:
    return {kind: lists for kind, lists in status.items() if any(lists.values())}


@pytest.mark.parametrize("what", ["environment", "tree"])
def test_the_script_sees_the_official_environment_and_tree(
    what: str, official: dict[str, Official], ours: dict[str, Ours]
) -> None:
    """The script sees the official environment, but for the variables that keep installers from
    retrying. Every patch leaves the same files with the same modes."""

    def found(log: str) -> set[str]:
        return {line for line in log.splitlines() if line.startswith(f"{what}: ")} - added

    added = {f"environment: {name}={value}" for name, value in OFFLINE_ENVIRONMENT.items()}

    assert "environment: FROM_IMAGE=yes" in found(official["gold"].tests) or what == "tree"
    # The official runner loses the output of a timeout, and some patches run no tests.
    both = [name for name in official if official[name].tests and official[name].report]
    assert "gold" in both
    assert len(both) >= len(official) - WITHOUT_TESTS
    for name in both:
        assert found(ours[name].evaluation.log) == found(official[name].tests) != set(), name
