"""Existing tests on the base commit, before any change, at a price."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.running import apply_patch, merge_runs, regressions, run_tests
from agent.limits import SHARE
from agent.session.session import Session
from agent.session.steps import Step
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.rendering import render_tests
from agent.tools.testing import problem_of

TIMED_OUT = 124
"""Exit code of a command that took too long."""

LEAST_S = 60.0
"""Seconds that they may take in any case."""

_PATIENCE, _PATIENCE_S = 5.0, 30.0
"""With a change, a file may take this many times longer, and this many seconds more."""


@dataclass(frozen=True)
class BaseRun:
    """A run of test files on the base commit, or of all tests of a command without paths."""

    paths: tuple[str, ...]
    run: TestRun
    duration_s: float

    @property
    def is_late(self) -> bool:
        """True if it was ended at its limit."""
        return self.run.exit_code == TIMED_OUT

    @property
    def shows_something(self) -> bool:
        """True if it ended, and a test passes and nothing contradicts that.

        Where the runner names no tests, its exit code decides.
        """
        run = self.run
        if self.is_late or run.problem:
            return False
        names_tests = run.observed or run.reported or run.passed or run.failed or run.errors
        return bool(run.passed if names_tests else run.exit_code == 0)


@dataclass(frozen=True)
class Baseline:
    """Test files that work on the base commit, and their runs."""

    runs: tuple[BaseRun, ...]
    left_out: tuple[str, ...] = ()
    """One line for each file that is not run, with the reason."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The test files that are run with a change."""
        return tuple(path for run in self.runs for path in run.paths)

    @property
    def run(self) -> TestRun | None:
        """Their runs as one; None without any."""
        return merge_runs([base.run for base in self.runs]) if self.runs else None


async def baseline(
    paths: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    *,
    share: float = SHARE,
    cache: dict[str, BaseRun] | None = None,
) -> Baseline:
    """Run existing tests on the base commit, the likeliest first, within a share of the time.

    All files run together, for a quarter of the time. If that run does not end, or nothing passes,
    for example because one file cannot be imported, the first file runs alone, for half of the
    remaining time, and the other files together, and so on. The last one gets the remaining time. A
    file that does not end in time is left out. So is a file without a passing test, unless this is
    true of all files, or the runner names no tests. A command that takes no paths is one run, which
    only the limit of every run ends. All times are those of recorded steps. The work tree is
    restored after each run.

    `cache` has earlier runs of such files, and gets the new ones.
    """
    cache = {} if cache is None else cache
    takes_paths = tools.runner.takes_paths
    runs: list[BaseRun] = []
    for path in paths:
        old = cache.get(path)
        is_usable = old and (not takes_paths or {*old.paths} <= {*paths})
        if old and is_usable and old not in runs:
            runs.append(old)
    left_s = tools.test_timeout_s
    if takes_paths:  # a share of the recorded steps, without waits for people, for one of two runs
        spent_s = sum(step.duration_s for step in session.steps if step.kind != "event")
        left_s = max(LEAST_S, share * spent_s) / 2
    left_out: list[str] = []
    rest = tuple(path for path in paths if all(path not in old.paths for old in runs))
    waiting = [rest] if rest and (takes_paths or not runs) else []
    while waiting:
        unit = waiting.pop(0)
        is_group = takes_paths and len(unit) > 1
        limit_s = left_s / 4 if is_group else left_s / 2 if waiting else left_s
        ran = await _run(unit, tools, protection, session, limit_s) if limit_s >= 1 else None
        left_s -= ran.duration_s if ran else 0.0
        if is_group and not (ran and ran.shows_something):
            waiting[:0] = [unit[:1], unit[1:]]
        elif ran:
            runs.append(ran)
            cache.update(dict.fromkeys(ran.paths, ran))
        else:
            left_out.append(f"{unit[0]} was not run: other tests took the time for tests")
    left_out += [
        f"{late.paths[0]} was left out: it takes longer than {late.duration_s:.0f} s without the "
        "change"
        for late in runs
        if late.is_late
    ]
    ended = [run for run in runs if not run.is_late]
    working = [run for run in ended if run.shows_something]
    return Baseline(tuple(working or ended), tuple(left_out))


async def run_again(
    before: Baseline, tools: ToolSettings, protection: Protection, session: Session
) -> TestRun | None:
    """Run the files of a baseline with a change. Return their runs as one, None without files."""
    runs = []
    for old in before.runs:
        limit_s = _PATIENCE * old.duration_s + _PATIENCE_S
        runs.append(await run_tests(old.paths, tools, protection, session, limit_s=limit_s))
    return merge_runs(runs) if runs else None


async def _run(
    paths: tuple[str, ...],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    limit_s: float,
) -> BaseRun:
    tree, step_count = session.tree, len(_own(session))
    done = await run_tests(paths, tools, protection, session, limit_s=limit_s)
    duration_s = sum(step.duration_s for step in _own(session)[step_count:])
    await session.take(tree)
    passing = tuple(path for path in paths if any(name.startswith(path) for name in done.passed))
    names_files = tools.runner.takes_paths and passing
    return BaseRun(passing if names_files else paths, done, duration_s)


def _own(session: Session) -> list[Step]:
    return [step for step in session.steps if step.scope == session.name]


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


async def check_patch(
    patch: str,
    tests: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    fresh: Session,
    new_tests: Sequence[str] = (),
) -> PatchCheck:
    """Run tests without and with a patch. `fresh` is a branch at the base commit.

    `new_tests` are the tests that the patch adds. They run with the patch only, and have to pass.
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
