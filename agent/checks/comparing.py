"""A run of tests compared with one of the base commit."""

from collections.abc import Iterable

from agent.tools import TestRun


def regressions(before: TestRun | None, done: TestRun) -> list[str]:
    """Return the tests that fail or no longer run, but did not fail at the base commit.

    Each is one line. An exit code that is neither 0 nor that of the base commit is a regression
    too, whether or not tests are named.
    """
    known = {*before.failed, *before.errors} if before else set()
    new = [name for name in (*done.failed, *done.errors) if name not in known]
    if done.problem and not (before and before.problem):
        return [f"the regression tests prove nothing: {done.problem}", *map(_fails, new)]
    if new:
        return [_fails(name) for name in new]
    gone = _functions(before.passed if before else []) - _functions(done.passed)
    expected = before.exit_code if before else 0
    if done.exit_code not in (0, expected) or (gone and not done.passed):
        return [
            f"the regression tests end with exit code {done.exit_code}, and with {expected} before"
        ]
    return [f"{name} passed before and is not run any more" for name in sorted(gone)]


def _fails(name: str) -> str:
    return f"{name} fails and did not before"


def _functions(names: Iterable[str]) -> set[str]:
    """Return test names without their parameters, which may depend on the code under test."""
    return {name.partition("[")[0] for name in names}
