"""Existing tests on the base commit, before any change."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.running import run_tests
from agent.session.session import Session
from agent.tools import Protection, TestRun, ToolSettings

TIMED_OUT = 124
"""Exit code of a command that took too long."""


@dataclass(frozen=True)
class Baseline:
    """Test files that work on the base commit, and their run."""

    paths: tuple[str, ...]
    run: TestRun


async def baseline(
    paths: Sequence[str], tools: ToolSettings, protection: Protection, session: Session
) -> Baseline:
    """Run existing tests on the base commit, without files that keep the others from running.

    With many runners, a file that cannot be imported ends the run before any test. So if nothing
    passes, each file runs alone, and those count of which something passes. If there are none, all
    count. A file that takes too long ends the search. The work tree is restored afterwards.
    """
    together = await _run(paths, tools, protection, session)
    if _shows_something(together) or len(paths) == 1:
        return Baseline(tuple(paths), together)
    alone: dict[str, TestRun] = {}
    for path in paths:
        done = await _run([path], tools, protection, session)
        if _shows_something(done):
            alone[path] = done
        if done.exit_code == TIMED_OUT:
            break
    match tuple(alone):
        case ():
            return Baseline(tuple(paths), together)
        case (path,):
            return Baseline((path,), alone[path])
        case working:
            return Baseline(working, await _run(working, tools, protection, session))


async def _run(
    paths: Sequence[str], tools: ToolSettings, protection: Protection, session: Session
) -> TestRun:
    before = session.tree
    done = await run_tests(paths, tools, protection, session)
    await session.take(before)
    return done


def _shows_something(run: TestRun) -> bool:
    """Return True if a test passes and nothing contradicts that, or the runner names no tests."""
    named = run.observed or run.passed or run.failed or run.errors
    return not run.problem and bool(run.passed if named else run.exit_code == 0)
