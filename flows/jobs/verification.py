"""Tests of a repository before and after a patch, each in a fresh workspace, and the verdict."""

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from agent.checks import regressions
from agent.checks.running import merge_runs
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
from flows.jobs import projects
from flows.jobs.reached_files import Reach, find_reach
from flows.storage.lake import Row

Verdict = Literal["repaired", "nothing_broke", "not_tested", "regressed"]
"""`repaired`: tests that failed before pass now, as they were. `nothing_broke`: tests that passed
before pass now. `not_tested`: no test says anything about the patch. `regressed`: a test fails now
and did not before. The best is first."""

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
    others: tuple[Suite, ...] = ()
    """The suites of further projects of the repository."""

    @property
    def suites(self) -> tuple[Suite, ...]:
        return (self.suite, *self.others)

    @property
    def command(self) -> str:
        """The commands of all suites."""
        return "; ".join(suite.command for suite in self.suites)


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
    at_base: TestRun | None = None
    """The tests of the patch on the code of the base commit; None if it has no tests or no code."""
    reach: Reach = field(default_factory=Reach)
    """Which changed files of code the tests of `state` reach."""


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
        changes = await workspace.changes()
        protected = [c.path for c in changes if _decides(c, checks.command)]
        others = [c.path for c in changes if not BY_CONVENTION.owns(c.path)]
        state = await _run_checks(workspace, checks)
        found = await find_reach(workspace, changes, state.tests, checks.suites, patch)

    async def run_without(put_back: Sequence[str], name: str) -> TestRun:
        """Run the tests with the patch, but some files as at the base commit."""
        async with workspaces.workspace(instance, place, name) as workspace:
            await workspace.apply(patch)
            await workspace.put_back(put_back)
            return await _run_tests(workspace, checks)

    old = await run_without(protected, "verify-tests") if protected else None
    has_both = 0 < len(others) < len(changes)
    at_base = await run_without(others, "verify-code") if has_both else None
    return asdict(After(state, "", old, tuple(protected), at_base, found))


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
    runs = []
    for suite in checks.suites:
        run = await run_suite(workspace, suite, checks.timeout_s)
        if run.exit_code and workspace.limits_reached:
            raise InfrastructureError(shortage(workspace.limits_reached), retryable=False)
        run = replace(run, output=run.output[-_KEPT_CHARACTERS:], reports={})
        runs.append(projects.name_tests(suite, checks.suites, run) if checks.others else run)
    return merge_runs(runs)


_STATE, _AFTER = TypeAdapter(VerifiedState), TypeAdapter(After)

NO_EVIDENCE: dict[str, Any] = {
    "before": None,
    "after": None,
    "with_old_tests": None,
    "at_base": None,
    "warnings": [],
}
"""The evidence of a patch whose tests were not run."""


def judge_results(
    base_results: dict[str, Any], results: dict[str, Any], suites: Sequence[Suite] = ()
) -> Judged:
    """Return the verdict on a patch, with its evidence, from the values of `before` and `after`.

    The reason has the verdict of each of several `suites`.
    """
    base, patched = _STATE.validate_python(base_results), _AFTER.validate_python(results)
    verdict, reason = decide(base, patched)
    if len(suites) > 1 and patched.state is not None:
        reason = "; ".join([reason, *_judge_each(base, patched, patched.state, suites)])
    old = patched.with_old_tests
    evidence = {
        "before": asdict(base.tests),
        "after": asdict(patched.state.tests) if patched.state else None,
        "with_old_tests": asdict(old) if old else None,
        "at_base": asdict(patched.at_base) if patched.at_base else None,
        "warnings": list_warnings(base, patched),
    }
    return Judged(verdict, reason, evidence)


def _judge_each(
    base: VerifiedState, patched: After, state: VerifiedState, suites: Sequence[Suite]
) -> Iterator[str]:
    """Yield the verdict on a patch by the tests of each project."""
    for suite in suites:
        part = partial(projects.take_part, suite=suite, suites=suites)
        old, at_base = patched.with_old_tests, patched.at_base
        verdict, _ = decide(
            replace(base, tests=part(base.tests)),
            replace(
                patched,
                state=replace(state, tests=part(state.tests)),
                with_old_tests=part(old) if old else None,
                at_base=part(at_base) if at_base else None,
                reach=Reach(),
            ),
        )
        yield f"{suite.folder or suite.name}: {verdict.replace('_', ' ')}"


def decide(base: VerifiedState, patched: After) -> tuple[Verdict, str]:
    """Return the verdict on a patch and its reason."""
    if patched.state is None:
        return "not_tested", f"the patch does not apply to the base commit: {patched.problem}"
    first, last = base.tests, patched.state.tests
    if first.problem:
        return "not_tested", f"at the base commit, the tests prove nothing: {first.problem}"
    if lost := regressions(first, last):
        return "regressed", _some(lost)
    old = patched.with_old_tests
    if old is not None and (lost := _need_changed_tests(first, last, old)):
        changed = _some(list(patched.changed_tests))
        reason = f"existing tests pass only as the patch changes them ({changed}): {_some(lost)}"
        return "not_tested", reason
    failing = [*first.failed, *first.errors]
    if repaired := [name for name in failing if name in last.passed]:
        return "repaired", f"{_count(repaired)} failed before, and now not: {_some(repaired)}"
    if not last.passed:
        return _judge_exit_code(first, last)
    reach = patched.reach
    if reach.code and len(reach.unreached) == len(reach.code):
        return "not_tested", f"no test that ran reaches {_some(list(reach.unreached))}"
    return "nothing_broke", "; ".join(_list_evidence(first, last, patched))


def _judge_exit_code(first: TestRun, last: TestRun) -> tuple[Verdict, str]:
    """Return the verdict of a command that names no test that passes."""
    if failing := [*first.failed, *first.errors]:
        return "not_tested", f"{_count(failing)} failed before, and none passes: {_some(failing)}"
    if first.exit_code == 0:
        return "nothing_broke", "the command ends with exit code 0"
    if last.exit_code == 0:
        return "repaired", f"the command ended with exit code {first.exit_code}, and with 0 now"
    return "not_tested", f"the tests end with exit code {last.exit_code}, before and after"


def _list_evidence(first: TestRun, last: TestRun, patched: After) -> Iterator[str]:
    """Yield what the runs show of a patch that broke nothing."""
    yield f"{_count(last.passed)} {'passes' if len(last.passed) == 1 else 'pass'}"
    if still := [*first.failed, *first.errors]:
        yield f"{_count(still)} failed before, not repaired: {_some(still)}"
    if patched.at_base is not None:
        new = {*last.passed} - {*first.passed, *first.skipped}
        showing = len(new - {*patched.at_base.passed})
        if new:
            yield f"new tests that fail without the change: {showing} of {len(new)}"
    reach = patched.reach
    if known := [path for path in reach.code if path not in reach.unknown]:
        reached = [path for path in known if path not in reach.unreached]
        part, whole = (sum(reach.lines.get(path, 0) for path in x) for x in (reached, known))
        lines = f", with {part} of {whole} changed lines" if whole else ""
        missed = f", not {_some(list(reach.unreached))}" if reach.unreached else ""
        share = f"{len(reached)} of {len(known)}{lines}{missed}"
        yield f"changed files that tests reach, by imports and names: {share}"
    if reach.unknown:
        yield f"no test is known to reach {_some(list(reach.unknown))}"


def _need_changed_tests(first: TestRun, last: TestRun, old: TestRun) -> list[str]:
    """Return tests that fail as the base commit has them, and not as the patch has them.

    This includes tests that failed before the patch, if it made them pass by changing them.
    """
    if lost := regressions(first, old):
        return lost
    failing = {*first.failed, *first.errors}
    unrepaired = [name for name in (*old.failed, *old.errors) if name in failing]
    return [f"{name} still fails" for name in unrepaired if name in last.passed]


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
    """Return the best patch: by its verdict, then accepted by its own arm, then cheaper.

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
        get_args(Verdict).index(candidate.verdict),
        max(failing_old, failing),
        failing_old > failing,
        candidate.attempt["agent_verdict"] != "accepted",
        math.inf if cost is None else cost,
        candidate.arm,
    )
