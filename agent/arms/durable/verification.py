"""Test runs in a workspace, compared with those of the base commit."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent.arms.durable.roles import protecting
from agent.arms.durable.state import Anchor, Runs, State, Verification
from agent.errors import Undone
from agent.session.session import Session
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.probing import Probe, probe
from agent.tools.protection import explain
from agent.tools.testing import run_paths
from agent.workspaces.protocol import Workspace

_NO_RESULT = 125


async def run_tests(
    paths: Sequence[str], tools: ToolSettings, protection: Protection, session: Session
) -> TestRun:
    """Run test files in the session's workspace.

    Changes to protected files are reverted and reported in the output. If the run destroys the
    repository, the repository is restored and the run has no result.
    """
    command = tools.runner.shell_command(paths)
    request = {"paths": list(paths), "command": command}

    async def run(workspace: Workspace) -> TestRun:
        done = await run_paths(workspace, tools, paths)
        put_back = await protection.enforce(workspace)
        return replace(done, output=f"{done.output}\n{explain(put_back)}") if put_back else done

    try:
        return await session.act("tests", request, run, TestRun)
    except Undone as error:
        return TestRun(command, _NO_RESULT, [], [], [], str(error), problem=str(error))


async def probed(tools: ToolSettings, test_files: Sequence[str], session: Session) -> Probe:
    """Return whether the runner works on the session's work tree, which is restored afterwards."""
    before = session.tree
    request = {"command": tools.runner.command, "test_files": list(test_files)}
    try:
        found = await session.act("probe", request, lambda w: probe(w, tools, test_files), Probe)
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
    if reproduction.regression_tests:
        done = await tests(reproduction.regression_tests)
        compared = replace(compared, after=done)
        broken += regressions(reproduction.baseline, without(done, state.excepted))
    others = set(state.known_tests(named)) - set(reproduction.regression_tests)
    if others:
        await tests(sorted(others))
    return Verification(tuple(runs), tuple(broken), compared)


def passes(anchor: Anchor, done: TestRun) -> bool:
    """Return True if all tests that failed on the base commit pass.

    Code can end a run with exit code 0 or skip its tests, so each test has to be named as passed.
    """
    ended_well = done.exit_code == 0 and not done.problem
    return ended_well and set(anchor.failed) <= set(done.passed)


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
