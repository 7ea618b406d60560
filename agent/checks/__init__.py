"""Checks of a change by tests, as steps of a session. Arms share them.

running     a patch applied, and tests run, in a session's work tree
covering    the existing tests of changed files
named       the existing tests that a model names
baseline    existing tests on the base commit, within a share of the attempt's time
comparing   a run of tests against one of the base commit
judging     a patch on a fresh copy, compared with the base commit
debugging   detection of recurring errors
"""

from agent.checks.baseline import SHARE, Baseline, BaseRun, baseline, run_again
from agent.checks.comparing import regressions
from agent.checks.covering import find_covering
from agent.checks.judging import PatchCheck, checked, describe_unproven
from agent.checks.named import NamedFiles, find_named
from agent.checks.running import apply_patch, merge_runs, no_result, run_protected, run_tests

__all__ = [
    "SHARE",
    "BaseRun",
    "Baseline",
    "NamedFiles",
    "PatchCheck",
    "apply_patch",
    "baseline",
    "checked",
    "describe_unproven",
    "find_covering",
    "find_named",
    "merge_runs",
    "no_result",
    "regressions",
    "run_again",
    "run_protected",
    "run_tests",
]
