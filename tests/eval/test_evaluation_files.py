"""Test files that change while they run make a verdict suspect, and the script keeps no answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval import evaluation_files
from eval.audit import audit
from eval.evaluation_files import is_watched, watch
from eval.grading import grade
from eval.instances import load
from eval.types import Instance
from tests.eval.conftest import REPAIRED

MakeInstance = Callable[..., Instance]

BEGIN = (
    "import atexit, os, pathlib, shutil\ntest = pathlib.Path('test_calc.py')\nold = test.stat()\n"
)

HANDLED = {
    "written": "test.write_text(test.read_text())",
    "written and put back in time": (
        "test.write_text(test.read_text())\nos.utime(test, ns=(old.st_atime_ns, old.st_mtime_ns))"
    ),
    "replaced": "shutil.copy2(test, 'copy')\nos.replace('copy', test)",
    "removed": "atexit.register(test.unlink)",
    "written at the end": "atexit.register(lambda: test.write_text(''))",
}
"""Code of a module that the tests import and that changes their file."""


def patch_of(code: str) -> str:
    """Return a patch that repairs the module and adds code to it."""
    lines = f"{BEGIN}{code}\n{REPAIRED}".splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    removed = "-def add(a, b):\n-    return a - b\n-\n-\n-def double(a):\n-    return a + a\n"
    return f"--- a/calc.py\n+++ b/calc.py\n@@ -1,6 +1,{len(lines)} @@\n{removed}{added}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n == "written and put back in time" else pytest.mark.full)
        for n in HANDLED
    ],
)
async def test_a_test_file_that_changes_while_it_runs_is_suspect(
    name: str, make_instance: MakeInstance, host_shell: Any
) -> None:
    """Whatever the code does to the file, and if it puts it back."""
    instance = make_instance()
    evaluation = await grade(instance, patch_of(HANDLED[name]), host_shell, timeout_s=60)
    assert evaluation.outcome == "resolved", evaluation.log
    found = audit(instance, evaluation)
    assert (found.verdict, [str(each) for each in found.reasons]) == (
        "suspect",
        ["tests_changed: test_calc.py changed while the tests ran"],
    )


async def test_a_record_that_is_missing_is_suspect(
    make_instance: MakeInstance, host_shell: Any
) -> None:
    """The code can prevent the record, but not unseen."""
    instance = make_instance()
    patch = patch_of("os.mkdir('../applied/rewritten')")
    evaluation = await grade(instance, patch, host_shell, timeout_s=60)
    assert evaluation.outcome == "resolved", evaluation.log
    assert audit(instance, evaluation).verdict == "suspect"


async def test_the_script_has_no_expected_values_left(
    make_instance: MakeInstance, host_shell: Any, repository: Path
) -> None:
    """Code that reads the eval script finds no text from before the tests."""
    patch = patch_of("shutil.copy('../eval.sh', '../seen')")
    evaluation = await grade(make_instance(), patch, host_shell, timeout_s=60)
    assert evaluation.outcome == "resolved"
    seen = (repository.parent / "seen").read_text()
    assert "Start Test Output" in seen
    assert "assert" not in seen


def test_a_script_is_watched_only_between_its_own_markers() -> None:
    """Markers in a here-document or more than once are none of the script's."""
    start, end = (f": '>>>>> {each} Test Output'\n" for each in ("Start", "End"))
    assert is_watched(f"{start}pytest\n{end}")
    assert is_watched(f"cat >x <<'EOF'\n{start}EOF\n{start}pytest\n{end}")
    for script in (
        "",
        "pytest\n",
        start,
        f"{end}{start}",
        f"{start}{start}{end}",
        f"x {start}{end}",
    ):
        assert not is_watched(script)
        assert watch(script, ["a.py"], script_file="s", record="r") == script


@pytest.mark.slow
def test_the_tests_of_real_rows_are_watched(shared_data: Path) -> None:
    """The tests of every row are watched, and every row names some of its test files."""
    files = (
        shared_data / "swebench" / f"{name}.parquet" for name in ("lite_test", "verified_test")
    )
    for dataset in ("bundled", *map(str, files)):
        for instance in load(dataset):
            assert is_watched(instance.eval_script), instance.instance_id
            assert evaluation_files.tests_of_evaluation(instance), instance.instance_id
