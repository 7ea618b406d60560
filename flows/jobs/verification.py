"""Tests of a repository before and after a patch, each in a fresh workspace, and the verdict."""

import json
import math
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from agent.checks import regressions
from agent.errors import InfrastructureError
from agent.project import Suite, run_suite
from agent.runner_settings import is_test_support, shadows_a_module
from agent.testfiles import BY_CONVENTION
from agent.tools import TestRun
from agent.workspaces import Change, Workspace
from eval.resources import shortage
from eval.types import Instance
from flows.experiments import workspaces
from flows.experiments.cells import Place
from flows.storage.lake import Row

Verdict = Literal["verified", "regressed", "not_verified"]

_MAKEFILES = ("Makefile", "GNUmakefile", "makefile")
"""Files that define the test command, also new ones: make prefers GNUmakefile to others."""
_TEST_PROGRAMS = ("package.json", ".npmrc")
"""Further files that define the test command."""

_KEPT_CHARACTERS = 4_000
_LINT_TIMEOUT_S = 600
_MOST_WARNINGS = 50


@dataclass(frozen=True)
class Checks:
    """The commands of a verification."""

    suite: Suite
    lint: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True)
class VerifiedState:
    """Results of all commands in one state of the work tree."""

    tests: TestRun
    lint: dict[str, list[str]]
    """Lines that each failing linter printed; none for a linter that passed."""


@dataclass(frozen=True)
class After:
    """Results with a patch."""

    state: VerifiedState | None
    """None if the patch does not apply."""
    problem: str = ""
    """Why the patch does not apply."""
    with_old_tests: TestRun | None = None
    """The tests with existing tests and their settings as they are at the base commit; None if the
    patch changes none of them."""
    changed_tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """The verdict on a patch."""

    verdict: Verdict
    reason: str
    evidence: dict[str, Any]
    """The runs as JSON values, and new warnings of linters."""


async def before(instance: Instance, place: Place, checks: Checks) -> dict[str, Any]:
    """Return the results at the base commit as a JSON value.

    Raises:
        InfrastructureError: the workspace is not available, or too small for the tests.
    """
    async with workspaces.workspace(instance, place, "verify-base") as workspace:
        return asdict(await _run_checks(workspace, checks))


async def after(instance: Instance, place: Place, checks: Checks, patch: str) -> dict[str, Any]:
    """Return the results with a patch as a JSON value.

    Raises:
        InfrastructureError: the workspace is not available, or too small for the tests.
    """
    async with workspaces.workspace(instance, place, "verify-patch") as workspace:
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return asdict(After(None, str(error)))
        command = checks.suite.command
        protected = [c.path for c in await workspace.changes() if _decides(c, command)]
        state = await _run_checks(workspace, checks)
    if not protected:
        return asdict(After(state))
    async with workspaces.workspace(instance, place, "verify-tests") as workspace:
        await workspace.apply(patch)
        await workspace.put_back(protected)
        old = await _run_tests(workspace, checks)
    return asdict(After(state, "", old, tuple(protected)))


def _decides(change: Change, command: str) -> bool:
    """Return True if a change could make existing tests pass without a repair.

    A new test file cannot. A program that the test command names can.
    """
    path, name = change.path, change.path.rpartition("/")[2]
    if is_test_support(path) or name in _MAKEFILES:
        return True
    if change.status == "added":
        return shadows_a_module(path)
    try:
        words = shlex.split(command)
    except ValueError:  # a quote is left open
        words = command.split()
    in_command = path in {word.removeprefix("./") for word in words}
    return BY_CONVENTION.owns(path) or name in _TEST_PROGRAMS or in_command


async def _run_checks(workspace: Workspace, checks: Checks) -> VerifiedState:
    tests, lint = await _run_tests(workspace, checks), {}
    for command in checks.lint:
        done = await workspace.run(command, timeout_s=_LINT_TIMEOUT_S)
        is_missing = done.exit_code in (126, 127) or "No module named" in done.output
        has_passed = done.exit_code in (0, 124) or is_missing
        lines = [] if has_passed else done.output.splitlines()
        lint[command] = [line for line in lines if line.strip()]
    return VerifiedState(tests, lint)


async def _run_tests(workspace: Workspace, checks: Checks) -> TestRun:
    """Run the tests. Failures say nothing about the code if a limit of the container was reached.

    Raises:
        InfrastructureError: a limit was reached.
    """
    run = await run_suite(workspace, checks.suite, checks.timeout_s)
    if run.exit_code and workspace.limits_reached:
        raise InfrastructureError(shortage(workspace.limits_reached), retryable=False)
    return replace(run, output=run.output[-_KEPT_CHARACTERS:], reports={})


_STATE, _AFTER = TypeAdapter(VerifiedState), TypeAdapter(After)

NO_EVIDENCE: dict[str, Any] = {
    "before": None,
    "after": None,
    "with_old_tests": None,
    "warnings": [],
}
"""The evidence of a patch whose tests were not run."""


def judge_results(base_results: dict[str, Any], results: dict[str, Any]) -> Judged:
    """Return the verdict on a patch, with its evidence, from the values of `before` and `after`."""
    base, patched = _STATE.validate_python(base_results), _AFTER.validate_python(results)
    verdict, reason = decide(base, patched)
    old = patched.with_old_tests
    evidence = {
        "before": asdict(base.tests),
        "after": asdict(patched.state.tests) if patched.state else None,
        "with_old_tests": asdict(old) if old else None,
        "warnings": list_warnings(base, patched),
    }
    return Judged(verdict, reason, evidence)


def decide(base: VerifiedState, patched: After) -> tuple[Verdict, str]:
    """Return the verdict on a patch and its reason."""
    if patched.state is None:
        return "not_verified", f"the patch does not apply to the base commit: {patched.problem}"
    first, last = base.tests, patched.state.tests
    if first.problem:
        return "not_verified", f"at the base commit, the tests prove nothing: {first.problem}"
    if lost := regressions(first, last):
        return "regressed", _some(lost)
    old = patched.with_old_tests
    if old is not None and (lost := _need_changed_tests(first, last, old)):
        changed = _some(list(patched.changed_tests))
        reason = f"existing tests pass only as the patch changes them ({changed}): {_some(lost)}"
        return "not_verified", reason
    if first.exit_code != 0 or first.failed or first.errors:
        return "not_verified", _explain_red_base(first, last)
    if not last.passed:
        return "verified", "the command ends with exit code 0"
    return "verified", f"{_count(last.passed)} {'passes' if len(last.passed) == 1 else 'pass'}"


def _need_changed_tests(first: TestRun, last: TestRun, old: TestRun) -> list[str]:
    """Return tests that fail as the base commit has them, and not as the patch has them.

    This includes tests that failed before the patch, if it made them pass by changing them.
    """
    if lost := regressions(first, old):
        return lost
    failing = {*first.failed, *first.errors}
    unrepaired = [name for name in (*old.failed, *old.errors) if name in failing]
    return [f"{name} still fails" for name in unrepaired if name in last.passed]


def _explain_red_base(first: TestRun, last: TestRun) -> str:
    """Return the reason why tests that fail at the base commit prove nothing about a patch."""
    failing = [*first.failed, *first.errors]
    if still := [name for name in failing if name not in last.passed]:
        return f"{_count(still)} failed at the base commit, not repaired: {_some(still)}"
    if last.exit_code != 0:
        return f"the tests end with exit code {last.exit_code}, before and after"
    if failing:
        return f"{_count(failing)} failed at the base commit, and all pass now: {_some(failing)}"
    return f"the command ended with exit code {first.exit_code} at the base commit, and with 0 now"


def _count(names: list[str]) -> str:
    return "1 test" if len(names) == 1 else f"{len(names)} tests"


def list_warnings(base: VerifiedState, patched: After) -> list[str]:
    """Return warnings of linters that appear with the patch only."""
    if patched.state is None:
        return []
    warnings = []
    for command, lines in patched.state.lint.items():
        earlier = {_without_numbers(line) for line in base.lint.get(command, [])}
        warnings += [f"{command}: {x}" for x in lines if _without_numbers(x) not in earlier]
    return warnings[:_MOST_WARNINGS]


def _without_numbers(line: str) -> str:
    return "".join(character for character in line if not character.isdigit())


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


@dataclass(frozen=True)
class CandidatePatch:
    """The patch of one arm."""

    arm: str
    patch: str
    attempt: Row
    verdict: Verdict
    reason: str
    evidence: str
    """The results of its verification as JSON."""


def choose_best(candidates: Iterable[CandidatePatch]) -> CandidatePatch | None:
    """Return the best patch: verified, then accepted by its own arm, then cheaper.

    Of patches that prove nothing, one with fewer failing tests is better, where existing tests
    count as they are at the base commit. An empty patch is none.
    """
    patches = (candidate for candidate in candidates if candidate.patch.strip())
    return min(patches, key=_rank, default=None)


def _rank(candidate: CandidatePatch) -> tuple[int, int, bool, bool, float, str]:
    evidence = json.loads(candidate.evidence)
    failing, failing_old = (
        len(run["failed"]) + len(run["errors"]) if run else 0
        for run in (evidence["after"], evidence["with_old_tests"] or evidence["after"])
    )
    cost = candidate.attempt["cost_usd"]
    return (
        ("verified", "not_verified", "regressed").index(candidate.verdict),
        max(failing_old, failing),
        failing_old > failing,
        candidate.attempt["agent_verdict"] != "accepted",
        math.inf if cost is None else cost,
        candidate.arm,
    )
