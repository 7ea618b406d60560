"""Patches and logs that graders could judge differently, each with an image and a row."""

import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.types import EvaluationOutcome, Instance

MakeInstance = Callable[..., Instance]

FILES = {
    "crlf.py": b"first = 1\r\nsecond = 2\r\nthird = 3\r\n",
    "latin.py": "# caf\xe9\nname = 'a'\n".encode("latin-1"),
    "logo.bin": bytes(range(256)),
}
"""Files that the images contain besides the package."""

TESTS = """\
import pytest, unittest
from calc import add, double

def test_add():
    assert add(2, 3) == 5

def test_add_zero():
    assert add(2, 0) == 2

def test_double():
    assert double(4) == 8

@pytest.mark.xfail
def test_expected():
    assert add(2, 3) != 5

@pytest.mark.parametrize("text", ["log(photon)-cm", "log(photon)-s"])
def test_unit(text):
    assert add(2, 3) == 5

@pytest.mark.parametrize("good", [True, False])
def test_mixed(good):
    assert good

class Case(unittest.TestCase):
    def test_repaired(self):
        self.assertEqual(add(2, 3), 5)

    @unittest.skip("not here")
    def test_skipped(self):
        pass
"""

# Prints what else a verdict depends on: the environment, and the tree after the patch.
SCRIPT = """\
#!/bin/bash
set -uxo pipefail
cd /testbed
{{ pwd; umask; command -v python git; env | sort | grep -v '^HOSTNAME='
   readlink /proc/$$/fd/0; grep SigIgn /proc/$$/status
}} | sed 's/^/environment: /'
find . -name .git -prune -o ! -type d -printf 'tree: %M %p %l\\n'
find . -name .git -prune -o -type f -exec sha256sum {{}} + | sed 's/^/tree: /'
cat > test_calc.py <<'EOF_TESTS'
{tests}EOF_TESTS
{command}
rm -f test_calc.py
"""

MARKED = ": '>>>>> Start Test Output'\n{}\n: '>>>>> End Test Output'"
PYTEST = MARKED.format("python -m pytest -rA -p no:cacheprovider test_calc.py")
UNITTEST = MARKED.format("python -m unittest -v test_calc")

FILE = "test_calc.py"
ADD, ZERO, DOUBLE = (f"{FILE}::test_{name}" for name in ("add", "add_zero", "double"))
START, END, ONE = ">>>>> Start Test Output", ">>>>> End Test Output", f"PASSED {ZERO}"
UNIT, MIXED = f"{FILE}::test_unit", f"{FILE}::test_mixed"
REPAIRED = "test_repaired (test_calc.Case.test_repaired)"
SKIPPED = "test_skipped (test_calc.Case.test_skipped)"

HOOK = """\
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
PRINTED = f"""\
import os

def pytest_sessionstart(session):
    print("PASSED {ADD}\\nPASSED {ZERO}\\nPASSED {DOUBLE}", flush=True)
    os._exit(1)
"""
LATIN_LOST = """\
--- a/latin.py
+++ b/latin.py
@@ -1,2 +1,2 @@
 # caf?
-name = 'a'
+name = 'b'
"""
"""A patch that lost a byte in a conversion to UTF-8. GNU patch still applies it with fuzz."""

BINARY_LOST = """\
diff --git a/logo.bin b/logo.bin
index 1..2 100644
Binary files a/logo.bin and b/logo.bin differ
"""
"""The output of `git diff` without `--binary`."""

HUGE = "".join(f"{number:064x}\n" for number in range(90_000))
"""Six megabytes."""


REPOSITORY = f"durabench/test-official-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
"""Repository of the images. The tests of one file may run in several processes, each of which
removes its own images at the end."""


@dataclass(frozen=True)
class Case:
    """One patch on one image, graded by the official runner and by us."""

    instance: Instance
    patch: str | None
    expected: EvaluationOutcome
    timeout_s: int = 120


class Patches:
    """Patches that git itself makes from changes to a work tree."""

    def __init__(self, root: Path, *, begin: bool = True) -> None:
        """Create a repository in `root` if `begin` is set; otherwise use the existing one."""
        self._root = root
        if begin:
            self._git("init", "-q")
            self._git("add", ".")
            self._git("commit", "-q", "-m", "base")

    def of(self, change: Callable[[Path], Any]) -> str:
        """Return the patch of a change. The work tree is restored afterwards."""
        change(self._root)
        self._git("add", "-A")
        patch = self._git("diff", "--cached", "--binary", "-M", "HEAD")
        self._git("reset", "-q", "--hard")
        return patch

    def _git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self._root, check=True, capture_output=True
        )
        return done.stdout.decode()


def all_cases(make_instance: MakeInstance, root: Path, gold: str) -> dict[str, Case]:
    """Return every case by name. Each has its own instance, named after the case, because the
    official loggers are shared by instance id.

    `root` is a folder with the files of the images.
    """
    row = {"FAIL_TO_PASS": [ADD], "PASS_TO_PASS": [ZERO, DOUBLE]}

    def case(
        name: str,
        patch: str | None,
        expected: EvaluationOutcome,
        *,
        command: str = PYTEST,
        tag: str = "broken",
        timeout_s: int = 120,
        **columns: Any,
    ) -> tuple[str, Case]:
        instance = make_instance(
            instance_id=f"tiny__{name}",
            image=f"{REPOSITORY}:{tag}",
            eval_script=SCRIPT.format(tests=TESTS, command=command),
            **{**row, **columns},
        )
        return name, Case(instance, patch, expected, timeout_s)

    of = Patches(root).of
    crlf = of(lambda tree: (tree / "crlf.py").write_bytes(b"first = 1\r\nsecond = 4\r\n"))
    huge = of(lambda tree: (tree / "huge.txt").write_text(HUGE))
    binary = of(lambda tree: (tree / "logo.bin").write_bytes(bytes(range(255, -1, -1))))
    passed = "".join(f"PASSED {test}\n" for test in (ADD, ZERO, DOUBLE))
    return dict(
        [
            # Patches.
            case("gold", gold, "resolved"),
            case("null", None, "unresolved"),
            case("empty", "", "unresolved"),
            case("malformed", "this is no diff\n", "patch_failed"),
            case("surrogate", gold + "\udce9", "patch_failed"),
            case("partial", gold + gold.replace("calc.py", "other.py"), "patch_failed"),
            case("already", gold, "resolved", tag="fixed"),
            case("no_git", gold, "resolved", tag="no-git"),
            case("worse", gold.replace("+    return a + b", "+    return 5"), "unresolved"),
            case("shifted", gold.replace(" def double(a):", " def doubled(a):"), "resolved"),
            case("cut", gold.rstrip("\n"), "resolved"),
            case("crlf_file", gold + crlf, "resolved"),
            case("crlf_lost", gold + crlf.replace("\r\n", "\n"), "patch_failed"),
            case("crlf_patch", gold.replace("\n", "\r\n"), "resolved"),
            case("latin_context", gold + LATIN_LOST, "unresolved"),
            case("latin_tests", gold, "unresolved", command=f"{PYTEST}\nsed -i s/a/b/ latin.py"),
            case("binary", gold + binary, "resolved"),
            case("binary_lost", gold + BINARY_LOST, "resolved"),
            case("mode_only", of(lambda tree: (tree / "calc.py").chmod(0o755)), "unresolved"),
            case("huge", gold + huge, "resolved"),
            case("outside", gold + _added("../../etc/outside", "x\n"), "patch_failed"),
            case("hook", _added("conftest.py", HOOK), "resolved"),
            case("printed", _added("conftest.py", PRINTED), "unresolved"),
            case("syntax", of(_replace("def broken(:\n")), "unresolved"),
            case("exits", of(_replace("import os\nos._exit(0)\n")), "unresolved"),
            case("kills", of(_replace("import os\nos.kill(os.getppid(), 9)\n")), "unresolved"),
            case("closes", of(_replace("import os\nos.close(1)\nos.close(2)\n")), "unresolved"),
            # Matching of test ids to results, and the result of a skipped test.
            case(
                "ids",
                gold,
                "unresolved",
                FAIL_TO_PASS=[f"{UNIT}[log(pho", f"{FILE}::test_expected", f"{FILE}::test_un"],
                PASS_TO_PASS=[f"{MIXED}[", f"{MIXED}[True", ZERO],
            ),
            case(
                "skips",
                gold,
                "unresolved",
                command=UNITTEST,
                log_parser="parse_log_django",
                FAIL_TO_PASS=[REPAIRED, SKIPPED],
                PASS_TO_PASS=[SKIPPED],
            ),
            case(
                "fail_only", "", "unresolved", eval_type="fail_only", FAIL_TO_PASS=[ADD, "absent"]
            ),
            # Contents of a log.
            case("around", gold, "resolved", command=_print(passed, START, END)),
            case("no_end", gold, "unresolved", command=_print(START, passed)),
            case("twice", gold, "unresolved", command=_print(START, ONE, END, START, passed, END)),
            case(
                "bad_code",
                gold,
                "unresolved",
                command=_print(START, passed, ">>>>> Tests Timed Out", END),
            ),
            case(
                "bytes",
                gold,
                "resolved",
                command=_print(START, "\\xff\\0\\r" + passed.replace("\n", "\\r\\n"), END),
            ),
            case("memory", gold, "unresolved", command="echo Cannot allocate memory"),
            case("slow", gold, "timeout", command="echo begun; sleep 60", timeout_s=5),
        ]
    )


def _replace(code: str) -> Callable[[Path], Any]:
    """Return a change that puts code in place of the package."""
    return lambda tree: (tree / "calc.py").write_text(code)


def _print(*texts: str) -> str:
    """Return a command that prints lines, untraced: the official runner's two streams race."""
    return f"set +x; printf '%b\\n' {shlex.join(texts)}"


def _added(path: str, content: str) -> str:
    lines = content.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{added}"
    )
