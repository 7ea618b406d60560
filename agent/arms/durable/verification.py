"""Test runs in a workspace, compared with those of the base commit."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent.arms.durable.roles import protecting
from agent.arms.durable.state import Anchor, Runs, State, Verification
from agent.checks import Baseline, regressions, run_again, run_tests
from agent.errors import Undone
from agent.session.session import Session
from agent.tools import TestRun, ToolSettings
from agent.tools.probing import Probe, probe


async def probed(tools: ToolSettings, test_files: Sequence[str], session: Session) -> Probe:
    """Return whether the runner works on the session's work tree, which is restored afterwards."""
    before = session.tree
    request = {"command": tools.runner.command, "test_files": list(test_files)}
    try:
        found = await session.act(
            "probe", request, lambda w: probe(w, tools, test_files), Probe, depends_on=tools
        )
    except Undone as error:
        found = Probe(False, str(error))
    await session.take(before)
    return found


async def verify(
    state: State, session: Session, *, named: Iterable[str] = (), anchor_decides: bool
) -> Verification:
    """Run the anchor test, the regression tests and the `named` test files. Return the failures.

    The anchor test passes only when the whole task is done, so it decides only if `anchor_decides`.
    """
    reproduction = state.reproduction
    protection = protecting(reproduction.anchor)
    runs: list[TestRun] = []
    broken: list[str] = []

    async def tests(paths: Sequence[str]) -> TestRun:
        done = await run_tests(paths, state.tools, protection, session)
        runs.append(done)
        return done

    compared = Runs(before=reproduction.baseline)
    if reproduction.anchor is not None:
        done = await tests([reproduction.anchor.path])
        if anchor_decides:
            compared = replace(compared, anchor=done)
            if not passes(reproduction.anchor, done):
                broken.append(f"the anchor test {reproduction.anchor.path} fails")
    before = Baseline(reproduction.regression_runs)
    after = await run_again(before, state.tools, protection, session)
    if after is not None:
        runs.append(after)
        compared = replace(compared, after=after)
        broken += regressions(reproduction.baseline, without(after, state.excepted))
    found = await state.named_tests(named, session)
    if others := sorted({*found.files} - {*reproduction.regression_tests}):
        await tests(others)
    return Verification(tuple(runs), tuple(broken), compared)


def passes(anchor: Anchor, done: TestRun) -> bool:
    """Return True if all tests that failed on the base commit pass.

    Code can end a run with exit code 0 or skip its tests, so each test has to be named as passed.
    """
    ended_well = done.exit_code == 0 and not done.problem
    return ended_well and set(anchor.failed) <= set(done.passed)


def without(run: TestRun, excepted: Sequence[str]) -> TestRun:
    """Return the run as if the excepted tests had passed."""
    gone = [test for test in (*run.failed, *run.errors) if test in excepted]
    only = gone and len(gone) == len([*run.failed, *run.errors])
    return replace(
        run,
        exit_code=0 if only else run.exit_code,
        passed=[*run.passed, *gone],
        failed=[test for test in run.failed if test not in excepted],
        errors=[test for test in run.errors if test not in excepted],
    )


def reports_tests(runs: Runs) -> bool:
    """Return True unless the change keeps tests from running that ran without it."""
    if runs.anchor is not None and not _reports(runs.anchor):
        return False
    return runs.after is None or _reports(runs.after) or not (runs.before and _reports(runs.before))


def _reports(run: TestRun) -> bool:
    """Return True if a run names tests, or is one of a runner that names none."""
    named = run.passed or run.failed or run.errors
    return not run.problem and (bool(named) or not run.observed)
