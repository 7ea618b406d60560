"""The bundled tasks are well formed, and their own tests decide them as declared."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eval import harness
from eval import upstream as module
from eval.upstream import checkout

TASKS = Path(module.__file__).parent / "tasks"
POLYGLOT = TASKS / "polyglot"
FOLDERS = {
    path.parent.name: path.parent
    for repo in (TASKS, POLYGLOT)
    for path in sorted(repo.glob("tasks/*/task.yaml"))
}
IDS = list(FOLDERS)
GO, NODE = "durabench__byteflow-1", "durabench__routelet-2"
OTHERS = [instance_id for instance_id in IDS[1:] if instance_id not in (GO, NODE)]
PATCHES = ("patch", "test_patch")
PROGRAMS = {"parse_log_gotest": "go", "parse_log_tap": "node"}
Evaluate = Callable[[str, str], harness.LogReport]


def every(ids: list[str]) -> list[Any]:
    """Return ids of tasks that only `make test-all` tries."""
    return [pytest.param(instance_id, marks=pytest.mark.full) for instance_id in ids]


@cache
def instance(instance_id: str) -> dict[str, Any]:
    from swebench.task.repo import load_task

    loaded: dict[str, Any] = load_task(FOLDERS[instance_id])
    return loaded


def commands(row: dict[str, Any]) -> str:
    """Return an evaluation script without the test patch in it."""
    script: str = row["eval_script"]
    return script.replace(row["test_patch"], "")


def environment() -> dict[str, str]:
    """Return an environment with this interpreter's `python` and no pytest plugins."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # The tasks use no plugins, and importing the installed ones takes longer than the tests.
    return {**os.environ, "PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(command: list[str], folder: Path, text: bytes = b"") -> bytes:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    ).stdout


def is_test(path: str) -> bool:
    return path.startswith(("tests/", "test/")) or path.endswith("_test.go")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repositories")


@pytest.fixture(scope="module")
def evaluate(repositories: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """Return a function that applies a patch, runs the evaluation script on the host and has
    swebench read the log."""

    def evaluate_patch(instance_id: str, patch: str) -> harness.LogReport:
        row = instance(instance_id)
        if shutil.which(program := PROGRAMS.get(row["log_parser"], "bash")) is None:
            pytest.skip(f"{program} is not on this machine")
        folder = tmp_path_factory.mktemp("evaluation")
        work = folder / "testbed"
        checkout(row["repo"], row["base_commit"], work, repositories)
        if patch:
            applied = run(["git", "apply", "--verbose", "-"], work, patch.encode())
            assert b"Applied patch" in applied, applied.decode()
        before = run(["git", "status", "--porcelain"], work)
        script = harness.eval_script(row).replace("/testbed", str(work))
        log = run(["bash"], folder, script.encode()).decode()
        assert run(["git", "status", "--porcelain"], work) == before
        return harness.report(row, patch, log)

    return evaluate_patch


@pytest.mark.parametrize("repo", [TASKS, POLYGLOT])
def test_the_checker_of_swebench_accepts_the_repo(repo: Path) -> None:
    """swebench's checker finds no problem in the task repo, not even a warning."""
    from swebench.task.checks import check_task_repo

    assert check_task_repo(repo) == []


def test_the_readme_has_every_task() -> None:
    """The README's table lists exactly the tasks, each with its kind."""
    rows = re.findall(
        r"^\| `(durabench__\S+)` \| (\w+) \|", (TASKS / "README.md").read_text(), re.M
    )
    assert dict(rows) == {each: instance(each)["kind"] for each in IDS}


@pytest.mark.parametrize("instance_id", IDS)
def test_the_parts_of_a_task_are_consistent(instance_id: str) -> None:
    """Ids match the repository, the kind is known, each patch changes only tests or only sources,
    and the script's commands stay inside the testbed."""
    row = instance(instance_id)
    assert row["instance_id"] == instance_id
    assert instance_id.startswith(f"{row['repo'].replace('/', '__')}-")
    assert row["kind"] in ("bugfix", "feature")
    changed = {key: re.findall(r"^diff --git a/(\S+)", row[key], re.M) for key in PATCHES}
    assert changed["patch"]
    assert changed["test_patch"]
    assert not [path for path in changed["patch"] if is_test(path)]
    assert not [path for path in changed["test_patch"] if not is_test(path)]
    assert row["test_patch"] in row["eval_script"]
    assert not re.findall(r"(?<![\w:.}=])/(?!testbed\b|bin/bash)\w+/", commands(row))
    assert "git config" not in row["eval_script"]


@pytest.mark.parametrize("instance_id", [IDS[0], GO, NODE, *every(OTHERS)])
def test_the_gold_patch_resolves(instance_id: str, evaluate: Evaluate) -> None:
    """With the reference patch, every FAIL_TO_PASS and PASS_TO_PASS test passes."""
    report = evaluate(instance_id, instance(instance_id)["patch"])
    assert (report.fail_to_pass_failure, report.pass_to_pass_failure) == ((), ())
    assert report.resolved


@pytest.mark.parametrize("instance_id", [IDS[0], GO, NODE, *every(OTHERS)])
def test_the_empty_patch_does_not_resolve(instance_id: str, evaluate: Evaluate) -> None:
    """Without a patch, exactly the FAIL_TO_PASS tests fail."""
    row = instance(instance_id)
    report = evaluate(instance_id, "")
    assert list(report.fail_to_pass_failure) == row["FAIL_TO_PASS"]
    assert list(report.pass_to_pass_success) == row["PASS_TO_PASS"]
    assert (report.fail_to_pass_success, report.pass_to_pass_failure) == ((), ())
    assert not report.resolved
