"""Checks of a change by tests, as steps of a session. Arms share them.

running     tests that cover a change or that a model names, found, run and compared
baseline    existing tests on the base commit, and a patch on a fresh copy compared with it
debugging   detection of recurring errors
"""

from agent.checks.baseline import (
    Baseline,
    BaseRun,
    PatchCheck,
    baseline,
    check_patch,
    describe_unproven,
    run_again,
)
from agent.checks.running import (
    NamedFiles,
    apply_patch,
    find_covering,
    find_named,
    no_result,
    regressions,
    run_protected,
    run_tests,
)
