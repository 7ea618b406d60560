"""The change to submit, without new tests and leftovers, and its tests compared with before."""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from agent.arms.durable.roles import protecting
from agent.arms.durable.state import Anchor, Runs, State, Verification
from agent.checks import Baseline, regressions, run_again, run_tests
from agent.errors import Undone
from agent.index import query
from agent.session.session import Session
from agent.testfiles import BY_CONVENTION
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.testing import Probe, probe
from agent.workspaces import Change, Workspace


async def probe_runner(tools: ToolSettings, test_files: Sequence[str], session: Session) -> Probe:
    """Return whether the runner works on the session's work tree, which is restored afterwards."""
    before = session.tree
    request = {"command": tools.runner.command, "test_files": list(test_files)}
    try:
        result = await session.act(
            "probe", request, lambda w: probe(w, tools, test_files), Probe, depends_on=tools
        )
    except Undone as error:
        result = Probe(False, str(error))
    await session.take(before)
    return result


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
    files = (await state.find_named_tests(named, session)).files
    if others := sorted({*files} - {*reproduction.regression_tests}):
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
    failing = [*run.failed, *run.errors]
    ignored = [test for test in failing if test in excepted]
    return replace(
        run,
        exit_code=0 if ignored and ignored == failing else run.exit_code,
        passed=[*run.passed, *ignored],
        failed=[test for test in run.failed if test not in excepted],
        errors=[test for test in run.errors if test not in excepted],
    )


def reports_tests(runs: Runs) -> bool:
    """Return True unless the change keeps tests from running that ran without it."""

    def reports(run: TestRun) -> bool:
        names_tests = bool(run.passed or run.failed or run.errors)
        return not run.problem and (names_tests or not (run.observed or run.reported))

    if runs.anchor is not None and not reports(runs.anchor):
        return False
    return runs.after is None or reports(runs.after) or not (runs.before and reports(runs.before))


_COMPILED = ".pyc"


@dataclass(frozen=True)
class SubmittedChange:
    """The difference from the base commit that is submitted."""

    patch: str
    files: tuple[str, ...] = ()
    """Changed paths that are in the patch."""
    new_tests: dict[str, str] = field(default_factory=dict)
    """New test files by path, left out because the tests of the task's author replace them. For
    reviewers, they and changed ones are part of the patch."""
    strays: tuple[str, ...] = ()
    """New files that a command left behind. They are left out, as are compiled files."""

    @property
    def code(self) -> tuple[str, ...]:
        """The changed paths that are not tests."""
        return tuple(path for path in self.files if path not in self.new_tests)


async def change_of(
    session: Session,
    written: Collection[str],
    *,
    tests_count: bool = False,
    for_reviewers: bool = False,
) -> SubmittedChange:
    """Return the change in the work tree, which stays as it is.

    A new file is stray if no editing tool was asked to write it (`written`), unless it is a renamed
    file of the base commit or a module that the change imports. If `tests_count`, as for a task
    that asks for tests, new tests are submitted where nothing else changed. Reviewers get all.
    """
    before = session.tree

    async def read(workspace: Workspace) -> SubmittedChange:
        changes = await workspace.changes()
        added = [change.path for change in changes if change.status == "added"]
        new = [path for path in added if path in written]
        if for_reviewers:
            new += [change.path for change in changes if change.status == "modified"]
        owns = BY_CONVENTION.owns
        if not all(map(owns, new)):  # the repository can state its tests
            stated = await query(workspace, lambda index: index.symbols.test_files)
            tests = [path for path in new if stated.owns(path) or owns(path)]
        else:
            tests = new
        strays = await _find_strays(workspace, changes, written)
        left_out = {*strays} if for_reviewers else {*tests, *strays}
        files = [change.path for change in changes if change.path not in left_out]
        if tests_count and not files:
            files, tests, left_out = tests, [], {*strays}
        contents = {path: (await workspace.read(path)).decode("utf-8", "replace") for path in tests}
        patch = await workspace.diff(without=sorted(left_out))
        named = tuple(path for path in strays if not path.endswith(_COMPILED))
        return SubmittedChange(patch, tuple(files), contents, named)

    request = {"written": sorted(written), "tests_count": tests_count}
    if for_reviewers:
        request["for_reviewers"] = True
    change = await session.act("change", request, read, SubmittedChange, depends_on={})
    await session.take(before)
    return change


async def put_back_tests(session: Session, protection: Protection) -> None:
    """Restore the existing tests in the work tree of a session, and remove other added ones."""
    await session.act("old tests", {}, protection.enforce, list[str], depends_on=protection)


async def _find_strays(
    workspace: Workspace, changes: Sequence[Change], written: Collection[str]
) -> list[str]:
    """Return new files that were not written on purpose, renamed, or imported by the change."""
    unwritten = [c.path for c in changes if c.status == "added" and c.path not in written]
    if not unwritten:
        return []
    deleted = [change.path for change in changes if change.status == "deleted"]
    originals = (await workspace.originals(deleted)).values()
    patch = await workspace.diff()
    strays = []
    for path in unwritten:
        if _is_imported(path, patch):
            continue
        with suppress(OSError):  # an unreadable file equals none
            if originals and await workspace.read(path) in originals:
                continue
        strays.append(path)
    return strays


def _is_imported(path: str, patch: str) -> bool:
    """Return True if an added line of another file imports the module at `path`."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or BY_CONVENTION.owns(path):
        return False
    name = re.escape(pure.parent.name if pure.stem == "__init__" else pure.stem)
    return re.search(rf"^\+\s*(import|from)\b[^#\n]*\b{name}\b", patch, re.MULTILINE) is not None


async def add_test(session: Session, path: str, content: str) -> None:
    """Write a new test into the session's work tree."""
    encoded = content.encode()
    await session.act(
        "write anchor",
        {"path": path},
        lambda w: w.write(path, encoded),
        type(None),
        depends_on=encoded,
    )
