"""The official swebench harness behind a few typed functions.

Importing `swebench.harness` takes about four seconds, because its package imports every
sub-package, including Modal and the Hugging Face libraries. So each function here imports it
only when called, and only if the answer needs it.
"""

import functools
import importlib.metadata
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import log_formats

EVAL_TYPES = frozenset({"pass_and_fail", "fail_only"})
"""swebench's `EvalType` values."""

_LOG_MARKERS = (">>>>> Start Test Output", ">>>>> End Test Output")
"""swebench's own markers, without its import."""


@dataclass(frozen=True)
class LogReport:
    """The harness's reading of one test log."""

    resolved: bool
    results_found: bool
    """False if the log has no usable test results. Then no test has a status."""
    advice: str = ""
    """swebench's guess at the reason for missing results, or `""`. It decides nothing, because
    it reads the whole log, and the patch under test can write anything to that log."""
    reason: str = ""
    """Reason for the verdict by own rules, or `""`."""
    reward: float | None = None
    """Reward of a Harbor task; None for others, and without a readable one."""
    fail_to_pass_success: tuple[str, ...] = ()
    fail_to_pass_failure: tuple[str, ...] = ()
    pass_to_pass_success: tuple[str, ...] = ()
    pass_to_pass_failure: tuple[str, ...] = ()


@functools.cache
def version() -> str:
    """Return the version of the installed swebench release."""
    return importlib.metadata.version("swebench")


def knows_log_parser(name: str) -> bool:
    """Return True if the installed swebench has this log parser."""
    if name in log_formats.FORMATS:
        return True
    from swebench.harness.log_parsers import PARSER_REGISTRY

    return name in PARSER_REGISTRY


def apply_commands() -> tuple[str, ...]:
    """Return the commands to try in turn to apply a patch file, without the file's name."""
    from swebench.harness.run_evaluation import GIT_APPLY_CMDS

    return tuple(GIT_APPLY_CMDS)


def eval_script(row: dict[str, Any]) -> str:
    """Return the script that the official runner would execute for this row."""
    from swebench.harness.utils import make_test_spec

    return str(make_test_spec(row).eval_script)


def report(row: dict[str, Any], patch: str, log: str) -> LogReport:
    """Return the official verdict on a test log."""
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
    tests = official.get("tests_status", {})

    def names(kind: str, result: str) -> tuple[str, ...]:
        return tuple(tests.get(kind, {}).get(result, ()))

    return LogReport(
        resolved=official["resolved"],
        results_found=official["patch_successfully_applied"],
        advice=official.get("infra_failure_reason", ""),
        fail_to_pass_success=names("FAIL_TO_PASS", "success"),
        fail_to_pass_failure=names("FAIL_TO_PASS", "failure"),
        pass_to_pass_success=names("PASS_TO_PASS", "success"),
        pass_to_pass_failure=names("PASS_TO_PASS", "failure"),
    )


def parse_log(parser: str, log: str) -> dict[str, str]:
    """Return the status of each test in a log, by one of swebench's parsers."""
    from swebench.harness.log_parsers import PARSER_REGISTRY

    return {name: str(status) for name, status in PARSER_REGISTRY[parser](log, None).items()}


def read_statuses(row: dict[str, Any], log: str) -> dict[str, bool]:
    """Return whether each test in a test log passed. A skipped test has no entry."""
    from swebench.harness.grading import get_logs_eval
    from swebench.harness.utils import make_test_spec

    with tempfile.TemporaryDirectory(prefix="durabench-") as folder:
        log_path = Path(folder) / "test_output.txt"
        log_path.write_text(log, encoding="utf-8", errors="replace")
        statuses, _ = get_logs_eval(make_test_spec(row), str(log_path))
    results = [Result(0, test, status) for test, status in statuses.items()]
    return {each.test: each.has_passed for each in results if each.has_passed or each.has_failed}


def log_markers() -> tuple[str, str]:
    """Return the texts that eval scripts print before and after the tests."""
    return _LOG_MARKERS


def exit_code_marker() -> str:
    """Return the text that eval scripts print before the exit code of the tests."""
    from swebench.harness.constants import TEST_EXIT_CODE

    return str(TEST_EXIT_CODE)


@dataclass(frozen=True)
class Result:
    """One line of a log that gives the result of a test."""

    line: int
    test: str
    status: str
    """`PASSED`, `FAILED`, `ERROR`, `SKIPPED` or `XFAIL`."""

    @property
    def has_failed(self) -> bool:
        """True if a test with this status counts as failed."""
        return self.status in ("FAILED", "ERROR")

    @property
    def has_passed(self) -> bool:
        """True if a test with this status counts as passed."""
        return self.status in ("PASSED", "XFAIL")


def results(row: dict[str, Any], lines: list[str]) -> Iterator[Result]:
    """Yield the results of each line, parsed on its own.

    A parser keeps only the last result per test. Use this only with parsers that need no more
    than one line.
    """
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.utils import make_test_spec

    parse, spec = PARSER_REGISTRY[row["log_parser"]], make_test_spec(row)
    for number, line in enumerate(lines):
        for test, status in parse(line, spec).items():
            yield Result(number, test, status)
