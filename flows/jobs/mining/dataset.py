"""The mined dataset: a task repo in the form of swebench 5, and the record of tried changes.

tasks/COMMIT…/      one task each; its Dockerfile builds its image from the history up to its base
repository.bundle   the history of all tasks, for these builds
mined.jsonl         the changes that were tried, which a later start does not try again
"""

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from eval import git, harness
from eval.images import REPOSITORY
from flows.display.errors import UsageError
from flows.jobs.mining.candidates import TestedChange
from flows.jobs.mining.commands import LoggedTests

_RECORD = "mined.jsonl"
_DELIMITER = "EOF_114329324912"
_FILES = {
    "problem_statement": "problem_statement.md",
    "eval_script": "eval.sh",
    "patch": "gold.patch",
    "test_patch": "test.patch",
}


@dataclass(frozen=True)
class Tried:
    """A change that was tried."""

    commit: str
    key: str
    """Digest of its image and script: what else would be tried anew."""
    instance_id: str
    reason: str
    """Why it cannot be a task; '' if it is one."""
    warning: str = ""
    fail_to_pass: int = 0
    pass_to_pass: int = 0
    flaky: int = 0


def write_script(candidate: TestedChange, test_patch: str, tests: LoggedTests) -> str:
    """Return the evaluation script: the test files of the change, and the tests between markers.

    Test files that an agent wrote or changed at the same paths are replaced.
    """
    start, end = harness.log_markers()
    base = candidate.change.base
    old = [path for path in candidate.tests if path not in candidate.added_tests]
    restore = [f"git checkout {base} -- {shlex.join(old)}"] if old else []
    if candidate.added_tests:
        restore.append(f"rm -f -- {shlex.join(candidate.added_tests)}")
    lines = [
        "#!/bin/bash", "set -uxo pipefail", "cd /testbed", "export PYTHONDONTWRITEBYTECODE=1",
        *restore, f"git apply -v - <<'{_DELIMITER}'", f"{test_patch.rstrip()}\n{_DELIMITER}",
        f": '{start}'", tests.command, f": '{end}'", *restore,
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


class MinedDataset:
    """The folder of a mined dataset."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that is missing, empty or of an earlier start.

        Raises:
            UsageError: the folder has something else in it, or cannot be written.
        """
        self._folder, self._record = folder, folder / _RECORD
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()) and not self._record.exists():
                raise UsageError(f"{folder} is not empty, and no mined dataset: name another one")
            self._record.touch()
            lines = self._record.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
        self._tried: dict[tuple[str, str], Tried] = {}
        for line in lines:
            try:
                tried = Tried(**json.loads(line))
            except (ValueError, TypeError):  # the line of a process that was killed
                continue
            self._tried[tried.commit, tried.key] = tried

    def find(self, commit: str, key: str) -> Tried | None:
        """Return what an earlier start found out about a change, or None."""
        tried = self._tried.get((commit, key))
        if tried and not tried.reason and not self._task(tried.instance_id).is_dir():
            return None  # the task was removed
        return tried

    def add(self, tried: Tried) -> None:
        """Record a change that was tried."""
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(tried)) + "\n")

    def write_repository(self, mirror: Path, head: str) -> None:
        """Write the history up to a commit, from which images are built on other machines."""
        name = f"{self._folder.name}/main"
        (self._folder / "sweb.yaml").write_text(
            yaml.safe_dump({"datasets": [name], "splits": ["test"]}), encoding="utf-8"
        )
        git.pack(mirror, head, self._folder / REPOSITORY)

    def write_task(self, row: dict[str, Any], dockerfile: str) -> None:
        """Write the folder of a task, as a whole or not at all."""
        target = self._task(row["instance_id"])
        target.parent.mkdir(exist_ok=True)
        with git.temporary(self._folder) as scratch:
            folder = scratch / "task"
            folder.mkdir()
            texts = {name: row[column] for column, name in _FILES.items()}
            tests = {name: row[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
            texts["tests.json"] = json.dumps(tests, indent=2) + "\n"
            rest = {name: row[name] for name in row if name not in {*_FILES, *tests}}
            texts["task.yaml"] = yaml.safe_dump(rest, allow_unicode=True)
            texts["Dockerfile"] = dockerfile
            for name, text in texts.items():
                (folder / name).write_bytes(text.encode())
            if target.exists():
                target.rename(scratch / "older")
            folder.rename(target)

    def _task(self, instance_id: str) -> Path:
        return self._folder / "tasks" / instance_id
