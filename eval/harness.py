"""The official swebench harness behind a few typed functions.

Importing `swebench.harness` takes about four seconds, because its package imports every
sub-package (Modal and the Hugging Face libraries among them). So each function here imports
it when it is called, and what can be answered without it is.
"""

import functools
import importlib.metadata
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVAL_TYPES = frozenset({"pass_and_fail", "fail_only"})
"""swebench's `EvalType` values."""

# Known from SWE-bench Lite and Verified, so that their rows load without the import. The
# registry itself decides on every other name.
_COMMON_LOG_PARSERS = frozenset(
    {
        "parse_log_astroid",
        "parse_log_astropy",
        "parse_log_django",
        "parse_log_flask",
        "parse_log_marshmallow",
        "parse_log_matplotlib",
        "parse_log_pvlib",
        "parse_log_pydicom",
        "parse_log_pylint",
        "parse_log_pytest",
        "parse_log_pyvista",
        "parse_log_requests",
        "parse_log_scikit",
        "parse_log_seaborn",
        "parse_log_sphinx",
        "parse_log_sqlfluff",
        "parse_log_sympy",
        "parse_log_xarray",
    }
)


@dataclass(frozen=True)
class Report:
    """What the harness reads from one test log."""

    resolved: bool
    results_found: bool
    """False where the log holds no usable test results; then no test has a status."""
    environment_failure: bool
    """True where the log shows a fault that no patch can cause."""
    failure_reason: str
    """swebench's name for what it saw instead of results, or `""`."""
    fail_to_pass_success: tuple[str, ...] = ()
    fail_to_pass_failure: tuple[str, ...] = ()
    pass_to_pass_success: tuple[str, ...] = ()
    pass_to_pass_failure: tuple[str, ...] = ()


@functools.cache
def version() -> str:
    """The installed swebench release."""
    return importlib.metadata.version("swebench")


def knows_log_parser(name: str) -> bool:
    """Whether the installed swebench can parse logs by this parser."""
    return name in _COMMON_LOG_PARSERS or name in _log_parsers()


def apply_commands() -> tuple[str, ...]:
    """The commands that are tried in turn to apply a patch file, without the file's name."""
    from swebench.harness.run_evaluation import GIT_APPLY_CMDS

    return tuple(GIT_APPLY_CMDS)


def eval_script(row: dict[str, Any]) -> str:
    """The script that the official runner would execute for this row."""
    from swebench.harness.utils import make_test_spec

    return str(make_test_spec(row).eval_script)


def report(row: dict[str, Any], patch: str, log: str) -> Report:
    """The official verdict on a test log."""
    from swebench.harness.grading import get_eval_report
    from swebench.harness.utils import make_test_spec

    instance_id = row["instance_id"]
    prediction = {
        "instance_id": instance_id,
        "model_name_or_path": "durabench",
        "model_patch": patch,
    }
    with tempfile.TemporaryDirectory(prefix="durabench-") as folder:
        log_path = Path(folder) / "test_output.txt"
        log_path.write_text(log, encoding="utf-8", errors="replace")
        official = get_eval_report(
            test_spec=make_test_spec(row),
            prediction=prediction,
            test_log_path=str(log_path),
            include_tests_status=True,
        )[instance_id]
    return _typed(official)


def log_markers() -> tuple[str, str]:
    """What eval scripts print before the tests and after them."""
    from swebench.harness.constants import END_TEST_OUTPUT, START_TEST_OUTPUT

    return START_TEST_OUTPUT, END_TEST_OUTPUT


def failures(row: dict[str, Any], log: str) -> frozenset[str]:
    """The tests that any single line of a log has as failed, whatever other lines say.

    A parser keeps one status per test, the last; here each line is read by itself.
    """
    from swebench.harness.constants import TestStatus
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.utils import make_test_spec

    parse, spec = PARSER_REGISTRY[row["log_parser"]], make_test_spec(row)
    failed = {TestStatus.FAILED.value, TestStatus.ERROR.value}
    lines = log.partition(log_markers()[0])[2].splitlines()
    return frozenset(
        test for line in lines for test, status in parse(line, spec).items() if status in failed
    )


def _typed(official: dict[str, Any]) -> Report:
    tests = official.get("tests_status", {})

    def names(kind: str, result: str) -> tuple[str, ...]:
        return tuple(tests.get(kind, {}).get(result, ()))

    return Report(
        resolved=official["resolved"],
        results_found=official["patch_successfully_applied"],
        environment_failure=official["infra_failure"],
        failure_reason=official.get("infra_failure_reason", ""),
        fail_to_pass_success=names("FAIL_TO_PASS", "success"),
        fail_to_pass_failure=names("FAIL_TO_PASS", "failure"),
        pass_to_pass_success=names("PASS_TO_PASS", "success"),
        pass_to_pass_failure=names("PASS_TO_PASS", "failure"),
    )


def _log_parsers() -> frozenset[str]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    return frozenset(PARSER_REGISTRY)
