"""The cheap rival of a careful agent: mini-swe-agent, best of k by the tests that it can run.

Each try is mini-swe-agent itself, in a branch of the session. The existing tests that cover its
changed files judge its patch on a fresh copy of the repository. The first patch without new
failures is submitted, otherwise the patch with the fewest new failures.
"""

from dataclasses import dataclass, field, replace

from agent.arms import mini
from agent.arms.options import MiniRetryOptions
from agent.checks import PatchCheck, check_patch, describe_unproven, find_covering
from agent.errors import OutOfTime
from agent.models.patches import parse
from agent.session.session import BASE, Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, Task


@dataclass(frozen=True)
class _Try:
    """One run of mini-swe-agent, and the test results of its patch."""

    outcome: Outcome
    check: PatchCheck = field(default_factory=lambda: PatchCheck((), ()))
    """Empty without a patch, a covering test, or time for it."""

    @property
    def passes(self) -> bool:
        """True if there is a patch, and no test fails because of it."""
        return bool(self.outcome.patch) and not self.check.failures


async def solve(task: Task, session: Session, options: MiniRetryOptions) -> Outcome:
    """Run the agent until a patch passes or its tries are used up. Submit the best patch.

    Raises:
        InfrastructureError: the model or a workspace failed.
    """
    tries: list[_Try] = []
    for number in range(1, options.tries + 1):
        async with session.branch(f"try-{number}", BASE) as branch:
            outcome = await mini.solve(task, branch, options)
        tries.append(await _check(task, outcome, session, number))
        if tries[-1].passes or outcome.status == "out_of_time":
            break
    best = min(tries, key=lambda run: (not run.outcome.patch, len(run.check.failures)))
    detail = describe_unproven(best.check.unproven) or best.outcome.detail
    rows = [
        {
            "chosen": run is best,
            "status": run.outcome.status,
            "detail": run.outcome.detail,
            "tests": list(run.check.tests),
            "failed_checks": list(run.check.failures),
            "not_run": list(run.check.left_out),
            "unproven": run.check.unproven,
            "diff": run.outcome.patch,
        }
        for run in tries
    ]
    return replace(best.outcome, detail=detail, report={"tries": rows})


async def _check(task: Task, outcome: Outcome, session: Session, number: int) -> _Try:
    """Run the tests of a patch on a fresh copy. Without time for them, it counts as passing."""
    patch = outcome.patch
    if not patch:
        return _Try(outcome)
    changed = sorted({path for file in parse(patch) for path in file.paths})
    try:
        async with session.branch(f"check-{number}", BASE) as fresh:
            tests = await find_covering(changed, patch, fresh)
            if not tests:
                return _Try(outcome)
            tools = ToolSettings(runner=task.runner)
            return _Try(outcome, await check_patch(patch, tests, tools, Protection(), fresh))
    except OutOfTime:
        return _Try(outcome)
