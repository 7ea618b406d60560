"""The verdict on a patch, from runs of tests before and after it, and the choice among patches."""

import json
from dataclasses import asdict, replace

import pytest

from agent.checks.running import merge_runs
from agent.project.suites import Suite
from agent.tools import TestRun
from flows.jobs.projects import name_tests, take_part
from flows.jobs.reached_files import Reach
from flows.jobs.verification import (
    After,
    CandidatePatch,
    Verdict,
    VerifiedState,
    choose_best,
    decide,
    judge_results,
    list_warnings,
)


def run(exit_code: int = 0, problem: str = "", **named: str) -> TestRun:
    """Return a run with space-separated names of tests by result."""
    names = {kind: named.get(kind, "").split() for kind in ("passed", "failed", "errors")}
    return TestRun("test", exit_code, output="", problem=problem, **names)


def after(tests: TestRun, old: TestRun | None = None) -> After:
    """Return results with a patch, and with it and the tests of the base commit."""
    return After(VerifiedState(tests, {}), "", old, ("test_a.py",) if old else ())


GREEN = run(passed="a b")


@pytest.mark.parametrize(
    ("before", "patched", "verdict", "reason"),
    [
        (GREEN, after(run(passed="a b c")), "nothing_broke", "3 tests pass"),
        (GREEN, after(run(1, passed="a", failed="b")), "regressed", "b fails and did not before"),
        (GREEN, after(run(passed="a")), "regressed", "b passed before and is not run any more"),
        (
            GREEN,
            after(run(problem="no test ran")),
            "regressed",
            "the regression tests prove nothing: no test ran",
        ),
        (
            run(1, passed="a", failed="b"),
            after(run(passed="a b")),
            "repaired",
            "1 test failed before, and now not: b",
        ),
        (
            run(1, passed="a", failed="b"),
            after(run(1, passed="a", failed="b")),
            "nothing_broke",
            "1 test passes; 1 test failed before, not repaired: b",
        ),
        (
            run(1, passed="a", failed="b"),
            after(run(passed="a")),
            "nothing_broke",
            "1 test passes; 1 test failed before, not repaired: b",
        ),
        (run(3), after(run(3)), "not_tested", "the tests end with exit code 3, before and after"),
        (run(3), after(run(0)), "repaired", "the command ended with exit code 3, and with 0 now"),
        (run(0), after(run(0)), "nothing_broke", "the command ends with exit code 0"),
        (run(0), after(run(2)), "regressed", "the regression tests end with exit code 2"),
        (
            run(1, problem="no test ran"),
            after(GREEN),
            "not_tested",
            "at the base commit, the tests prove nothing: no test ran",
        ),
        (
            GREEN,
            After(None, "patch failed"),
            "not_tested",
            "the patch does not apply to the base commit: patch failed",
        ),
        (
            GREEN,
            after(GREEN, run(1, passed="a", failed="b")),
            "not_tested",
            "existing tests pass only as the patch changes them (test_a.py): b fails",
        ),
        (GREEN, after(GREEN, GREEN), "nothing_broke", "2 tests pass"),
        (
            run(1, passed="a", failed="b"),
            after(run(passed="a b"), run(1, passed="a", failed="b")),
            "not_tested",
            "existing tests pass only as the patch changes them (test_a.py): b still fails",
        ),
        (
            run(1, passed="a", failed="b c"),
            after(run(1, passed="a c", failed="b"), run(1, passed="a c", failed="b")),
            "repaired",
            "1 test failed before, and now not: c",
        ),
        (
            GREEN,
            replace(after(run(passed="a b c d")), at_base=run(1, passed="a b d", failed="c")),
            "nothing_broke",
            "4 tests pass; new tests that fail without the change: 1 of 2",
        ),
        (
            GREEN,
            replace(
                after(GREEN),
                reach=Reach(("a.py", "b.js"), ("b.js",), lines={"a.py": 3, "b.js": 5}),
            ),
            "nothing_broke",
            "2 tests pass; changed files that tests reach, by imports and names: 1 of 2, "
            "with 3 of 8 changed lines, not b.js",
        ),
        (
            GREEN,
            replace(
                after(GREEN),
                reach=Reach(("a.py", "c.sh"), (), ("c.sh",), {"a.py": 3, "c.sh": 5}),
            ),
            "nothing_broke",
            "2 tests pass; changed files that tests reach, by imports and names: 1 of 1, "
            "with 3 of 3 changed lines; no test is known to reach c.sh",
        ),
        (
            GREEN,
            replace(after(GREEN), reach=Reach(("b.js",), ("b.js",))),
            "not_tested",
            "no test that ran reaches b.js",
        ),
    ],
)
def test_a_verdict_needs_tests_before_and_after(
    before: TestRun, patched: After, verdict: Verdict, reason: str
) -> None:
    """Only tests that pass with the patch, and with the tests of the base commit, verify it."""
    found = decide(VerifiedState(before, {}), patched)
    assert found[0] == verdict
    assert found[1].startswith(reason)


def test_only_new_lines_of_linters_are_warnings() -> None:
    """Line numbers move with a patch, so they do not count."""
    base = VerifiedState(GREEN, {"lint": ["a.py:3: unused x"]})
    patched = After(VerifiedState(GREEN, {"lint": ["a.py:5: unused x", "a.py:6: unused y"]}))
    assert list_warnings(base, patched) == ["lint: a.py:6: unused y"]


def candidate(
    arm: str,
    verdict: Verdict,
    judged: str | None,
    cost: float | None,
    failed: int = 0,
    old: int | None = None,
) -> CandidatePatch:
    """Return the patch of an arm."""
    attempt = {"agent_verdict": judged, "cost_usd": cost}
    runs = {"after": failed, "with_old_tests": old}
    evidence = json.dumps(
        {
            name: None if count is None else {"failed": ["test"] * count, "errors": []}
            for name, count in runs.items()
        }
    )
    return CandidatePatch(arm, "diff", attempt, verdict, "", evidence)


def test_verified_then_accepted_then_cheaper_wins() -> None:
    """An unknown cost does not count as low, and an empty patch is not a patch."""
    ordered = [
        candidate("f", "nothing_broke", "accepted", 2.0),
        candidate("e", "nothing_broke", None, 0.1),
        candidate("d", "nothing_broke", None, None),
        candidate("c", "not_tested", "accepted", 0.1),
        candidate("b", "not_tested", "rejected", 0.1),
        candidate("a3", "not_tested", "rejected", 0.9, failed=1),
        candidate("a2", "not_tested", "accepted", 0.1, failed=0, old=1),
        candidate("a1", "not_tested", "accepted", 0.1, failed=2),
        candidate("a", "regressed", "accepted", 0.1),
    ]
    while ordered:
        found = choose_best(reversed(ordered))
        assert found is not None
        assert found.arm == ordered.pop(0).arm
    assert choose_best([CandidatePatch("a", "", {}, "not_tested", "", "{}")]) is None


@pytest.mark.parametrize("folder", ["", "web"])
def test_each_of_two_programs_is_judged_by_its_own_tests(folder: str) -> None:
    """Also in one folder. A program that is not there has tested nothing."""
    suites = (
        Suite("pytest", "pytest", "observed"),
        Suite("go test", "go test ./...", "go", folder),
    )
    python, go = run(passed="test_a.py::a"), run(passed="x/TestA", failed="x/TestB", exit_code=1)
    missing = run(127)

    def verify(*runs: TestRun) -> TestRun:
        return merge_runs(
            [name_tests(*each) for each in zip(suites, [suites] * 2, runs, strict=True)]
        )

    whole = verify(python, go)
    parts = [take_part(whole, suite, suites) for suite in suites]
    assert [len(part.passed) for part in parts] == [1, 1]
    assert [part.exit_code for part in parts] == [0, 1]
    state = asdict(VerifiedState(verify(python, missing), {}))
    reason = judge_results(
        state, asdict(After(VerifiedState(verify(python, missing), {}))), suites
    ).reason
    assert reason.endswith(f"pytest: nothing broke; {folder or 'go test'}: not tested")
