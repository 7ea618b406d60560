"""Checks of a change by tests, as steps of a session. Arms share them.

running     a patch applied, and tests run, in a session's work tree
covering    the existing tests of changed files
baseline    existing tests on the base commit
comparing   a run of tests against one of the base commit
judging     a patch on a fresh copy, compared with the base commit
debugging   detection of recurring errors
"""

from agent.checks.baseline import Baseline, baseline
from agent.checks.comparing import regressions
from agent.checks.covering import tests_covering
from agent.checks.judging import PatchCheck, checked
from agent.checks.running import apply_patch, no_result, run_protected, run_tests

__all__ = [
    "Baseline",
    "PatchCheck",
    "apply_patch",
    "baseline",
    "checked",
    "no_result",
    "regressions",
    "run_protected",
    "run_tests",
    "tests_covering",
]
