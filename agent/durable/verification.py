"""What machines find: tests run in a workspace, judged against what the base commit did."""

from collections.abc import Iterable, Sequence

from agent.durable.state import Reproduction, State, Verification
from agent.session import Session
from agent.tools import TestRun, ToolSettings
from agent.tools.testing import run_paths

_TESTS_FAILED = 1  # pytest's exit code; 2 to 5 are its own troubles, from collection on


async def run_tests(paths: Sequence[str], tools: ToolSettings, session: Session) -> TestRun:
    """Run test files in the session's workspace."""
    request = {"paths": list(paths), "command": tools.test_command}
    return await session.act("tests", request, lambda w: run_paths(w, tools, paths), TestRun)


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
        broken += regressions(reproduction, await tests(reproduction.regression_tests))
    others = set(state.known_tests(named)) - set(reproduction.regression_tests)
    if others:
        await tests(sorted(others))
    return Verification(tuple(runs), tuple(broken))


def regressions(reproduction: Reproduction, done: TestRun) -> list[str]:
    """Tests that fail now and did not at the base commit, one line each."""
    if done.exit_code == 0:
        return []
    new = [name for name in (*done.failed, *done.errors) if name not in reproduction.failing_before]
    if new:
        return [f"{name} fails and did not before" for name in new]
    if done.exit_code != _TESTS_FAILED and not reproduction.failing_before:
        return [f"the regression tests do not run any more: exit code {done.exit_code}"]
    return []
