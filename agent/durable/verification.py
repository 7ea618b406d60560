"""What machines find: tests run in a workspace, judged against what the base commit did."""

from collections.abc import Iterable, Sequence

from agent.durable.state import State, Verification
from agent.errors import Undone
from agent.session import Session
from agent.tools import TestRun, ToolSettings
from agent.tools.testing import run_paths

_TESTS_FAILED = 1  # pytest's exit code; 2 to 5 are its own troubles, from collection on
_NO_RESULT = 125


async def run_tests(paths: Sequence[str], tools: ToolSettings, session: Session) -> TestRun:
    """Run test files in the session's workspace. Where that destroys the repository, it is
    undone, and a run that did not come to any result."""
    request = {"paths": list(paths), "command": tools.test_command}
    try:
        return await session.act("tests", request, lambda w: run_paths(w, tools, paths), TestRun)
    except Undone as error:
        return TestRun(tools.test_command, _NO_RESULT, [], [], [], str(error))


async def verify(
    state: State, session: Session, *, named: Iterable[str] = (), anchor_decides: bool
) -> Verification:
    """Run anchor, regression set and `named` test files; what in them forbids going on.

    The anchor passes when the whole task is done, so it decides only where that is claimed.
    """
    reproduction = state.reproduction
    runs: list[TestRun] = []
    broken: list[str] = []

    async def tests(paths: Sequence[str]) -> TestRun:
        done = await run_tests(paths, state.tools, session)
        runs.append(done)
        return done

    if reproduction.anchor is not None:
        anchor = await tests([reproduction.anchor.path])
        if anchor_decides and anchor.exit_code != 0:
            broken.append(f"the anchor test {reproduction.anchor.path} fails")
    if reproduction.regression_tests:
        done = await tests(reproduction.regression_tests)
        broken += regressions(reproduction.baseline, done)
    others = set(state.known_tests(named)) - set(reproduction.regression_tests)
    if others:
        await tests(sorted(others))
    return Verification(tuple(runs), tuple(broken))


def regressions(before: TestRun | None, done: TestRun) -> list[str]:
    """Tests that fail now and did not at the base commit, one line each."""
    if done.exit_code == 0:
        return []
    known = {*before.failed, *before.errors} if before else set()
    new = [name for name in (*done.failed, *done.errors) if name not in known]
    if new:
        return [f"{name} fails and did not before" for name in new]
    if done.exit_code not in (_TESTS_FAILED, before.exit_code if before else 0):
        return [f"the regression tests do not run any more: exit code {done.exit_code}"]
    return []
