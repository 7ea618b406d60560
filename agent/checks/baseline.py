"""Existing tests on the base commit, before any change, at a price."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.running import merge_runs, run_tests
from agent.session.session import Session
from agent.session.steps import Step
from agent.tools import Protection, TestRun, ToolSettings

TIMED_OUT = 124
"""Exit code of a command that took too long."""

SHARE = 0.2
"""Share of an attempt's time so far that existing tests may take, without and with a change."""

LEAST_S = 20.0
"""Seconds that they may take in any case."""

_PATIENCE, _PATIENCE_S = 5.0, 30.0
"""With a change, a file may take this many times longer, and this many seconds more."""


@dataclass(frozen=True)
class FileRun:
    """The run of one test file on the base commit, or of all tests of a command without paths."""

    paths: tuple[str, ...]
    run: TestRun
    duration_s: float

    @property
    def is_late(self) -> bool:
        """True if it was ended at its limit."""
        return self.run.exit_code == TIMED_OUT


@dataclass(frozen=True)
class Baseline:
    """Test files that work on the base commit, and their runs."""

    files: tuple[FileRun, ...]
    left_out: tuple[str, ...] = ()
    """One line for each file that is not run, with the reason."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The test files that are run with a change."""
        return tuple(path for file in self.files for path in file.paths)

    @property
    def run(self) -> TestRun | None:
        """Their runs as one; None without any."""
        return merge_runs([file.run for file in self.files]) if self.files else None


async def baseline(
    paths: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    *,
    share: float = SHARE,
    known: dict[str, FileRun] | None = None,
) -> Baseline:
    """Run existing tests on the base commit, the likeliest first, within a share of the time.

    Each file runs alone, so that one that cannot be imported does not end the others, and its
    duration is known. It may take half of the time that is left, the last one all of it. A file
    that does not end in time is left out; so is one of which nothing passes, unless that is so of
    all. A command that takes no paths is one run, which only the limit of every run ends. All times
    are those of recorded steps. The work tree is restored after each file.

    `known` has the runs of files that ran before, and gets the others.
    """
    known = {} if known is None else known
    takes_paths = tools.runner.takes_paths
    units = [(path,) for path in paths] if takes_paths else [tuple(paths)]
    waiting = [unit for unit in units if unit[0] not in known]
    left_s = _limit_s(session, share) if takes_paths else tools.test_timeout_s
    left_out: list[str] = []
    for number, unit in enumerate(waiting, 1):
        limit_s = left_s if number == len(waiting) else left_s / 2
        if limit_s < 1:
            left_out.append(f"{unit[0]} was not run: the tests before it took the time for tests")
            continue
        known[unit[0]] = ran = await _run(unit, tools, protection, session, limit_s)
        left_s -= ran.duration_s
    runs = [known[unit[0]] for unit in units if unit[0] in known]
    left_out += [
        f"{file.paths[0]} was left out: it takes longer than {file.duration_s:.0f} s without the "
        "change"
        for file in runs
        if file.is_late
    ]
    ended = [file for file in runs if not file.is_late]
    working = [file for file in ended if _shows_something(file.run)]
    return Baseline(tuple(working or ended), tuple(left_out))


async def run_again(
    before: Baseline, tools: ToolSettings, protection: Protection, session: Session
) -> TestRun | None:
    """Run the files of a baseline with a change. Return their runs as one, None without files."""
    runs = []
    for file in before.files:
        limit_s = _PATIENCE * file.duration_s + _PATIENCE_S
        runs.append(await run_tests(file.paths, tools, protection, session, limit_s=limit_s))
    return merge_runs(runs) if runs else None


def _limit_s(session: Session, share: float) -> float:
    """Return the seconds for one of the two runs, from the steps that the attempt has made.

    What people say takes no time.
    """
    spent_s = sum(step.duration_s for step in session.steps if step.kind != "event")
    return max(LEAST_S, share * spent_s) / 2


async def _run(
    paths: tuple[str, ...],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    limit_s: float,
) -> FileRun:
    tree, made = session.tree, len(_own(session))
    done = await run_tests(paths, tools, protection, session, limit_s=limit_s)
    duration_s = sum(step.duration_s for step in _own(session)[made:])
    await session.take(tree)
    return FileRun(paths, done, duration_s)


def _own(session: Session) -> list[Step]:
    return [step for step in session.steps if step.scope == session.name]


def _shows_something(run: TestRun) -> bool:
    """Return True if a test passes and nothing contradicts that, or the runner names no tests."""
    named = run.observed or run.passed or run.failed or run.errors
    return not run.problem and bool(run.passed if named else run.exit_code == 0)
