"""A tiny real repository to grade patches on, and real shells to grade them in."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval.readers.swebench import parse
from eval.types import Instance

BROKEN = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n"

REPAIRED = BROKEN.replace("a - b", "a + b")

TESTS = """\
from calc import add, double


def test_add():
    assert add(2, 3) == 5


def test_add_zero():
    assert add(2, 0) == 2


def test_double():
    assert double(4) == 8
"""

GOLD = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def double(a):
"""  # noqa: W293 - empty context lines of a diff

EVAL_SCRIPT = """\
#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git status
git show
cat > test_calc.py <<'EOF_TESTS'
{tests}EOF_TESTS
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider test_calc.py
: '>>>>> End Test Output'
rm -f test_calc.py
"""


@dataclass(frozen=True)
class Finished:
    """The result of a command, in the form that grading expects."""

    exit_code: int
    output: str
    timed_out: bool = False
    truncated: bool = False


@pytest.fixture(scope="session")
def gold() -> str:
    return GOLD


@pytest.fixture(scope="session")
def make_row() -> Callable[..., dict[str, Any]]:
    """Return a factory of complete swebench 5 rows. Keywords replace columns; None removes one."""

    def make(**columns: Any) -> dict[str, Any]:
        row = {
            "instance_id": "tiny__calc-1",
            "repo": "tiny/calc",
            "version": "1.0",
            "base_commit": "0" * 40,
            "problem_statement": "add() subtracts",
            "patch": GOLD,
            "test_patch": "",
            "image": "durabench/test-calc:latest",
            "eval_script": EVAL_SCRIPT.format(tests=TESTS),
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
            "FAIL_TO_PASS": '["test_calc.py::test_add"]',
            "PASS_TO_PASS": ["test_calc.py::test_add_zero", "test_calc.py::test_double"],
            **columns,
        }
        return {column: value for column, value in row.items() if value is not None}

    return make


@pytest.fixture(scope="session")
def make_instance(make_row: Callable[..., dict[str, Any]]) -> Callable[..., Instance]:
    return lambda **columns: parse(make_row(**columns), where="test")


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a git repository with the broken package. Its parent folder is otherwise empty."""
    root = tmp_path / "place" / "repo"
    root.mkdir(parents=True)
    (root / "calc.py").write_text(BROKEN)
    _git(root, "init", "-q", "-b", "main")
    _commit(root, "base")
    return root


class HostShell:
    """A login shell in a folder of the host, with a home next to it."""

    environment = "host"
    limits_reached: Mapping[str, str] = {}

    def __init__(self, root: Path, max_output_bytes: int = 1 << 30) -> None:
        self.root = str(root)
        self.home = root.parent / "home"
        self._limit = max_output_bytes

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> Finished:
        # The login profile replaces PATH, and only this interpreter has pytest.
        path = f"export PATH={Path(sys.executable).parent}:$PATH; "
        return await asyncio.to_thread(self._run, path + command, timeout_s)

    def _run(self, command: str, timeout_s: float) -> Finished:
        done = subprocess.run(
            ["timeout", "-s", "KILL", str(timeout_s), "bash", "-lc", command],
            cwd=self.root,
            env={**os.environ, "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output = done.stdout.decode(errors="replace")
        killed = done.returncode in (-9, 124, 137)
        if len(output) <= self._limit:
            return Finished(done.returncode, output, killed)
        half = self._limit // 2
        return Finished(done.returncode, output[:half] + "\n...\n" + output[-half:], killed, True)

    async def write(self, path: str, content: bytes) -> None:
        await asyncio.to_thread(Path(self.root, path).write_bytes, content)


@pytest.fixture
def host_shell(repository: Path) -> HostShell:
    return HostShell(repository)


DOCKERFILE = """\
FROM durabench/base:bookworm
WORKDIR /testbed
COPY *.py ./
RUN git init -q -b main && git add . \\
    && git -c user.name=Test -c user.email=test@example.org commit -q -m base
# What a login shell would read, and the official runner does not.
RUN echo 'export POISON=profile PATH=/usr/bin:/bin' > /etc/profile.d/poison.sh
RUN echo 'export POISON=bashrc' > /root/.bashrc
ENV FROM_IMAGE=yes PATH=/opt/image/bin:/usr/local/bin:/usr/bin:/bin
"""


@pytest.fixture(scope="session")
def make_task_repo() -> Callable[..., Path]:
    """Return a factory of task repos whose image contains the package, broken or repaired."""

    def make(root: Path, instance: Instance, *, repaired: bool = False) -> Path:
        folder = root / "tasks" / instance.instance_id
        folder.mkdir(parents=True)
        (folder / "Dockerfile").write_text(DOCKERFILE)
        (folder / "calc.py").write_text(REPAIRED if repaired else BROKEN)
        return root

    return make
