"""The gates of the lean flow, each opened by tests on a fresh copy of the repository."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.arms.durable.answers import Work
from agent.arms.durable.options import Confidence
from agent.arms.durable.reproduction import check_on_base
from agent.arms.durable.roles import protecting
from agent.arms.durable.state import Evidence, Runs
from agent.arms.durable.verification import (
    SubmittedChange,
    passes,
    put_back_tests,
    reports_tests,
    without,
)
from agent.checks import (
    Baseline,
    NamedFiles,
    apply_patch,
    baseline,
    find_covering,
    regressions,
    run_again,
    run_tests,
)
from agent.errors import OutOfTime
from agent.journal import TreeRef
from agent.session.session import BASE, Session
from agent.shortening import head_and_tail
from agent.testfiles import BY_CONVENTION
from agent.tools import TestRun
from agent.tools.rendering import render_tests

Gate = Literal["change", "reproduction", "new_test", "regression", "review", "unverified"]
"""A gate that can stay closed.

`change`: there is a patch, and it applies to the base commit. `reproduction`: the new test fails
without the change. `new_test`: it passes with the change. `regression`: the related existing tests
fail no more than before. `review`: a reviewer has no objection. `unverified`: the work was not cut
off before its tests.
"""

_WRITE_A_TEST = (
    "the change is one of code, but has no new test: write one that fails without the change; if "
    "no test can show the change, answer again with `no_test_because`"
)

_FRESH = "fresh"

SHOWN_EVIDENCE = 4_000
"""Maximum length of the evidence of one finding in a prompt, in characters."""


@dataclass(frozen=True)
class GateFinding:
    """The reason why a gate stays closed."""

    gate: Gate
    lines: tuple[str, ...]
    """One line for each failure."""
    evidence: str = ""
    """Test output, errors first."""
    tests: tuple[str, ...] = ()
    """Ids of the failing existing tests."""


@dataclass(frozen=True)
class Judgement:
    """A change and the gates that stay closed to it."""

    tree: TreeRef
    change: SubmittedChange
    summary: str
    confidence: Confidence
    runs: Runs = field(default_factory=Runs)
    reproduction: str = ""
    """The reason why the claimed new test is none."""
    incomplete: str = ""
    """The reason why the author did not report the work as done."""
    unknown: tuple[str, ...] = ()
    """One line for each test that its author named and that is none, the first time."""
    findings: tuple[GateFinding, ...] = ()
    is_answer: bool = False
    """True if reviewers get an answer without a change: its author says that none is needed."""

    @property
    def accepted(self) -> bool:
        """True if every gate is open."""
        return not self.findings and not self.incomplete

    @property
    def gates(self) -> frozenset[Gate]:
        """The closed gates."""
        return frozenset(finding.gate for finding in self.findings)

    @property
    def failing(self) -> tuple[str, ...]:
        """Ids of the existing tests that fail because of the change."""
        return tuple(test for finding in self.findings for test in finding.tests)


def prepare_judge(state: Evidence, session: Session) -> None:
    """Let the fresh copy of `judge`, which has this session, open while the change is made."""
    if state.probe.works:
        session.prepare(_FRESH)


async def judge(
    state: Evidence,
    change: SubmittedChange,
    work: Work | None,
    incomplete: str,
    session: Session,
    *,
    insists_on_test: bool = False,
) -> Judgement:
    """Run the new test and the related existing tests on a fresh copy. Return the closed gates.

    A new test that holds on the base commit becomes the attempt's anchor test. If the judge insists
    on a test, a change of code without one keeps a gate closed, whatever the reason.
    """
    judged = Judgement(
        session.tree,
        change,
        work.summary if work else "",
        work.confidence if work else "low",
        incomplete=incomplete,
        is_answer=state.task.for_reviewers
        and not (change.patch or change.strays or incomplete)
        and work is not None
        and bool(work.no_test_because),
    )
    if not (change.patch and state.probe.works):
        return add_findings(state, judged)
    known_problems = frozenset(state.not_run)
    named = NamedFiles()
    if work is not None:  # its own new tests are not existing ones
        new = {work.test, *change.new_tests, *change.files}
        if state.task.for_reviewers:  # they run as they were, too
            new -= {*state.repository.test_files}
        names = [name for name in work.related_tests if name.partition("::")[0] not in new]
        named = await state.find_named_tests(names, session.scope("named"))
    covering = await find_covering(
        change.files,
        change.patch,
        session.scope("covering"),
        among=state.repository.test_files,
    )
    runner, profile = state.tools.runner, state.profile
    related = tuple(dict.fromkeys([*named.files, *filter(runner.runs, covering)]))
    try:
        async with session.branch(_FRESH, BASE, limit_s=profile.phase_limit_s) as fresh:
            before = Baseline(())
            if related:
                before = await baseline(
                    related,
                    state.tools,
                    protecting(None),
                    fresh,
                    share=profile.regression_share,
                    cache=state.baselines,
                )
            problem = await _reproduce(state, change, work, fresh)
            if (
                insists_on_test
                and not problem
                and profile.reproduction != "off"
                and state.reproduction.anchor is None
                and any(path.endswith(".py") for path in change.code)
                and work is not None
                and not work.test
            ):
                problem = _WRITE_A_TEST
            runs = await _runs(state, change, before, fresh)
    except OutOfTime as error:
        problem, runs = "", Runs(problem=str(error))
    unknown = tuple(line for line in named.refused if line not in known_problems)
    return add_findings(state, replace(judged, runs=runs, reproduction=problem, unknown=unknown))


async def _reproduce(
    state: Evidence, change: SubmittedChange, work: Work | None, fresh: Session
) -> str:
    """Verify a new or corrected test on the base commit, and adopt it if it holds.

    Only an adopted test stays in the work tree: a step that removes it takes as long as many tests.

    Return the reason why it is not a reproduction, or ''. An attempt at a task that no test can
    show continues without one, unless its profile requires a test.
    """
    if work is None or state.profile.reproduction == "off":
        return ""
    if state.task.for_reviewers and not change.code:  # nothing but tests, which only have to pass
        return ""
    adopted = state.reproduction.anchor
    if not work.test:
        if adopted is not None:
            return ""
        if not work.no_test_because:
            return "no new test was named; name one, or say in `no_test_because` why none can be"
        state.reproduction = replace(state.reproduction, problem=work.no_test_because)
        required = state.profile.reproduction == "required"
        return f"a new test is required, not: {work.no_test_because}" if required else ""
    content = change.new_tests.get(work.test)
    if adopted is not None and adopted.path == work.test and content in (None, adopted.content):
        return ""
    if content is None:
        return f"{work.test} is no new test file that an editing tool wrote"
    if any((old.path, old.content) == (work.test, content) for old in state.withdrawn):
        return ""
    anchor, problem = await check_on_base(state, work.test, content, fresh)
    if anchor is None:
        await fresh.take(BASE)
    else:
        state.reproduction = replace(state.reproduction, anchor=anchor, problem="")
    return problem


async def _runs(state: Evidence, change: SubmittedChange, before: Baseline, fresh: Session) -> Runs:
    """Run the tests with the change. Reviewers' existing tests run as they are and as they were."""
    anchor = state.reproduction.anchor
    protection = protecting(anchor)
    if state.task.for_reviewers:  # the patch has the test that a check may have left here
        await fresh.take(BASE)
    problem = await apply_patch(fresh, change.patch, protection.allowed)
    if problem:
        return Runs(problem=f"the patch does not apply to the base commit: {problem}")
    own = new_test = None
    if state.task.for_reviewers:
        existing, takes = state.repository.test_files, state.tools.runner.runs
        collected = [path for path in change.new_tests if _is_collected(path, existing)]
        if tests := sorted(filter(takes, collected)):
            own = await run_tests(tests, state.tools, protection, fresh)
        await put_back_tests(fresh, protection)
    if anchor is not None:
        new_test = await run_tests([anchor.path], state.tools, protection, fresh)
    after = await run_again(before, state.tools, protection, fresh)
    return Runs(new_test, own, before.run, after, left_out=before.left_out)


def _is_collected(path: str, existing: Collection[str]) -> bool:
    return path in existing or BY_CONVENTION.collects(path)


def add_findings(state: Evidence, judged: Judgement) -> Judgement:
    """Return the judgement with its findings, given the rulings so far."""
    return replace(judged, findings=tuple(_findings(state, judged)))


def _findings(state: Evidence, judged: Judgement) -> Iterable[GateFinding]:
    runs = judged.runs
    if judged.is_answer:
        return
    if not judged.change.patch:
        yield GateFinding("change", ("nothing was changed",))
        return
    if runs.problem:
        yield GateFinding("change", (runs.problem,))
        return
    if not state.probe.works:
        return
    if judged.reproduction:
        yield GateFinding("reproduction", (judged.reproduction,))
    anchor = state.reproduction.anchor
    if anchor is not None and runs.anchor is not None and not passes(anchor, runs.anchor):
        line = f"the new test {anchor.path} fails with the change"
        yield GateFinding("new_test", (line,), _format_run(runs.anchor))
    if runs.own is not None:
        earlier = [*runs.before.failed, *runs.before.errors] if runs.before else []
        own = without(runs.own, [*state.excepted, *earlier])
        if failures := regressions(None, own):
            yield GateFinding("new_test", tuple(failures), _format_run(own))
    if judged.unknown:
        yield GateFinding("regression", judged.unknown)
    if runs.after is not None:
        after = without(runs.after, state.excepted)
        lines = regressions(runs.before, after)
        if lines:
            before = {*runs.before.failed, *runs.before.errors} if runs.before else set()
            failing = (test for test in (*after.failed, *after.errors) if test not in before)
            yield GateFinding("regression", tuple(lines), _format_run(after), tuple(failing))


def _format_run(run: TestRun) -> str:
    return head_and_tail(render_tests(run, SHOWN_EVIDENCE), SHOWN_EVIDENCE)


def best(judged: Sequence[Judgement]) -> Judgement | None:
    """Return the change to submit: the latest of those with the fewest new failures.

    A change that keeps the tests from running is worthless, whatever else it does.
    """
    changed = [
        each
        for each in judged
        if each.is_answer or (each.change.patch and reports_tests(each.runs))
    ]
    return min(reversed(changed), key=rank, default=None)


def rank(judged: Judgement) -> tuple[int, int, int, int]:
    """Return the sort key; the lowest change is the best."""
    return (
        "change" in judged.gates,
        len(judged.failing),
        len(judged.findings),
        bool(judged.incomplete),
    )
