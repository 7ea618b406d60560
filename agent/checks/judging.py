"""A patch on a fresh copy of the repository, judged by tests against the base commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.baseline import baseline
from agent.checks.comparing import regressions
from agent.checks.running import apply_patch, run_tests
from agent.session.session import Session
from agent.tools import Protection, ToolSettings
from agent.tools.probing import problem_of
from agent.tools.rendering import render_tests


@dataclass(frozen=True)
class PatchCheck:
    """The results of tests of a patch."""

    tests: tuple[str, ...]
    """The test files that were run."""
    failures: tuple[str, ...]
    """Tests that fail because of the patch, or the reason why they could not run."""
    output: str = ""
    """The output of the run with the patch, errors first if it is long."""
    unproven: str = ""
    """The reason why the run with the patch shows nothing, or ''."""


async def checked(
    patch: str,
    tests: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    fresh: Session,
    new_tests: Sequence[str] = (),
) -> PatchCheck:
    """Run tests without and with a patch. `fresh` is a branch at the base commit.

    `new_tests` are those that the patch adds. They run with the patch only, and have to pass.
    """
    before = await baseline(tests, tools, protection, fresh) if tests else None
    problem = await apply_patch(fresh, patch)
    if problem:
        return PatchCheck(tuple(tests), (f"the patch does not apply: {problem}",))
    paths = (*(before.paths if before else ()), *new_tests)
    after = await run_tests(paths, tools, protection, fresh)
    failures = regressions(before.run if before else None, after)
    return PatchCheck(paths, tuple(failures), render_tests(after), problem_of(after))
