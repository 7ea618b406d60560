"""A repository with its history becomes a dataset, which is run."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from eval import instances
from flows.storage.images import CACHE_VARIABLE
from tests.journeys.command_line import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.timeout(600)]

BASE = ("--image", "durabench/base:bookworm")
CALC = """\
def add(a, b):
    return a - b


def mean(numbers):
    return sum(numbers) / len(numbers)
"""
REPAIRED = CALC.replace("a - b", "a + b")
TEST = "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
TESTED = f"{TEST}\n\ndef test_add():\n    assert add(1, 2) == 3\n"


class Repository:
    """A repository of a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        """Commit files, by their names without the suffix. Return the first ten characters."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")[:10]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with a repair, a merged feature, and changes that are no tasks."""
    repository = Repository(tmp_path / "calc")
    repository.commit("Start", calc=CALC, test_calc=TEST)
    text = "Adding two numbers gave their difference, which nobody expects of a sum."
    trailer = "Signed-off-by: Ada <ada@example.org>"
    message = f"Add instead of subtracting (#1)\n\n{text}\n\n    return a + b\n\n{trailer}"
    repository.commit(message, calc=REPAIRED, test_calc=TESTED)
    repository.commit("Test what works", calc=f"{REPAIRED}\n", test_other="def test(): pass\n")
    repository.git("checkout", "-qb", "feature")
    guard = '    if not numbers:\n        raise ValueError("no numbers")\n    return sum('
    repository.commit("wip", calc=REPAIRED.replace("    return sum(", guard))
    test = (
        "import calc\nimport pytest\n\n\ndef test_empty():\n    with pytest.raises(ValueError):\n"
    )
    repository.commit("tests", test_mean=f"{test}        calc.mean([])\n")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Refuse an empty mean", "feature")
    return repository


@pytest.fixture
def built(docker_client: DockerClient, terminal: Terminal) -> Iterator[list[str]]:
    """Yield a list of images, which are removed in the end."""
    terminal.variables[CACHE_VARIABLE] = str(terminal.folder / "cache")
    images: list[str] = []
    yield images
    for image in images:
        docker_client.images.remove(image, force=True)


@pytest.mark.journey("mine")
def test_a_mined_dataset_is_run(
    terminal: Terminal, repository: Repository, built: list[str], docker_client: DockerClient
) -> None:
    """The reference patch resolves each task, and no patch none, also on another machine."""
    printed = terminal.durabench("mine", "calc", *BASE)
    assert "3  have code and tests" in printed
    assert "2  validated" in printed
    assert "1  dropped: no test fails before the change and passes after it" in printed
    assert "warning: calc-" in printed  # of the merge
    assert "time: history " in printed
    tasks = instances.load(str(terminal.folder / "calc-tasks"))
    built += [task.image for task in tasks]
    by_tests = {task.fail_to_pass: task for task in tasks}
    repair = by_tests["test_calc.py::test_add",]
    assert repair.pass_to_pass == ("test_calc.py::test_zero",)
    assert repair.problem_statement.splitlines() == [
        "Add instead of subtracting",
        "",
        "Adding two numbers gave their difference, which nobody expects of a sum.",
    ]
    assert by_tests["test_mean.py::test_empty",].problem_statement == "Refuse an empty mean"

    again = terminal.durabench("mine", "calc", *BASE)
    assert "2  validated" in again
    assert "tests " not in again.rpartition("time: ")[2].partition("\n")[0]  # nothing was run

    docker_client.images.remove(repair.image, force=True)
    experiment: dict[str, Any] = {
        "name": "e",
        "dataset": "calc-tasks",
        "environment": "docker",
        "arms": [{"name": name, "agent": name} for name in ("gold", "null")],
    }
    ran = terminal.durabench("run", terminal.write("e.yaml", experiment))
    for task in tasks:
        assert f"gold · {task.instance_id}: resolved" in ran
        assert f"null · {task.instance_id}: unresolved" in ran


def test_what_cannot_be_mined_is_refused(terminal: Terminal, repository: Repository) -> None:
    """It costs one line, and nothing is written."""
    terminal.variables[CACHE_VARIABLE] = str(terminal.folder / "cache")
    (terminal.folder / "empty").mkdir()
    assert "not a git repository" in terminal.refused("mine", "empty")
    assert "there is no such folder" in terminal.refused("mine", "./nowhere")
    assert "--since" in terminal.attempt("mine", "calc", "--since", "yesterday").stderr
    assert "has no change since 2100-01-01" in terminal.refused(
        "mine", "calc", "--since", "2100-01-01"
    )
    assert "no log parser is known" in terminal.refused("mine", "calc", "--verify", "./check")
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.folder}", "../shallow")
    assert "is a shallow clone" in terminal.refused("mine", "shallow")
    repository.git("rm", "-q", "*.py")
    (repository.folder / "main.c").write_text("int main() {}\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "Rewrite it")
    assert "no test command is found" in terminal.refused("mine", "calc")
    assert not (terminal.folder / "calc-tasks").exists()
