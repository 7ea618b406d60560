"""A patch on a fresh copy of the repository, judged by tests against the base commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.baseline import baseline, run_again
from agent.checks.comparing import regressions
from agent.checks.running import apply_patch, merge_runs, run_tests
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
    left_out: tuple[str, ...] = ()
    """One line for each existing test file that was not run, with the reason."""
    unproven: str = ""
    """The reason why the run with the patch shows nothing, or ''."""


def describe_unproven(reason: str) -> str:
    """Return the detail of an outcome whose tests show nothing for that reason; '' without one."""
    return f"unproven: the tests show nothing: {reason}" if reason else ""


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
    before = await baseline(tests, tools, protection, fresh)
    problem = await apply_patch(fresh, patch)
    if problem:
        return PatchCheck(tuple(tests), (f"the patch does not apply: {problem}",))
    runs = [await run_again(before, tools, protection, fresh)]
    if new_tests:
        runs.append(await run_tests(new_tests, tools, protection, fresh))
    after = merge_runs([run for run in runs if run]) if any(runs) else None
    failures = regressions(before.run, after) if after else []
    return PatchCheck(
        (*before.paths, *new_tests),
        tuple(failures),
        render_tests(after) if after else "",
        before.left_out,
        problem_of(after) if after else "no test was run",
    )
