"""A patch applied, and existing tests found, run and compared, in the work tree of a session."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import normpath
from types import MappingProxyType

from agent.errors import Undone
from agent.index import covering, get_changed_names, query
from agent.runners import TestRunner
from agent.session.session import Session
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.protection import explain
from agent.tools.testing import run_paths
from agent.workspaces import Workspace

_NO_RESULT = 125


async def run_tests(
    paths: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    *,
    limit_s: float | None = None,
) -> TestRun:
    """Run test files in the session's workspace as one step, as `run_protected` does.

    `limit_s` ends the run earlier than the settings do.

    If the run destroys the repository, the repository is restored and the run has no result.
    """
    command = tools.runner.shell_command(paths)
    request = {"paths": list(paths), "command": command}
    limited = tools
    if limit_s is not None and limit_s < tools.test_timeout_s:
        limited = replace(tools, test_timeout_s=limit_s)

    async def run(workspace: Workspace) -> TestRun:
        return await run_protected(workspace, limited, paths, protection)

    try:
        return await session.act("tests", request, run, TestRun, depends_on=[tools, protection])
    except Undone as error:
        return no_result(command, str(error))


async def run_protected(
    workspace: Workspace,
    tools: ToolSettings,
    paths: Sequence[str],
    protection: Protection,
    *,
    beside_an_edit: bool = False,
) -> TestRun:
    """Run test files. Changes to protected files are reverted and reported in the output.

    `beside_an_edit` is passed to `run_paths`.

    Raises:
        Destroyed: the run left no repository.
        WorkspaceError: the shell is gone.
    """
    done = await run_paths(workspace, tools, paths, beside_an_edit=beside_an_edit)
    put_back = await protection.enforce(workspace)
    return replace(done, output=f"{done.output}\n{explain(put_back)}") if put_back else done


def no_result(command: str, problem: str) -> TestRun:
    """Return the run of a command that has no result for the given reason."""
    return TestRun(command, _NO_RESULT, [], [], [], problem, problem=problem)


def merge_runs(runs: Sequence[TestRun]) -> TestRun:
    """Return runs of different files as one. The first that failed decides the exit code."""
    if len(runs) == 1:
        return runs[0]
    return TestRun(
        command="; ".join(run.command for run in runs),
        exit_code=next((run.exit_code for run in runs if run.exit_code), 0),
        passed=[name for run in runs for name in run.passed],
        failed=[name for run in runs for name in run.failed],
        errors=[name for run in runs for name in run.errors],
        output="\n".join(run.output for run in runs),
        skipped=[name for run in runs for name in run.skipped],
        reports={name: report for run in runs for name, report in run.reports.items()},
        problem=next((run.problem for run in runs if run.problem), ""),
        observed=all(run.observed for run in runs),
        reported=all(run.reported for run in runs),
    )


async def apply_patch(
    session: Session, patch: str, new_tests: Mapping[str, bytes] = MappingProxyType({})
) -> str:
    """Apply a patch to the session's work tree, and then write new tests by their paths.

    Return git's error, or '' if the patch applies. New tests are one step with the patch,
    because each step that changes files takes a look at the whole work tree. A patch applies only
    to files that it knows, so it leaves a new test as it is.
    """

    async def apply(workspace: Workspace) -> str:
        missing = [test for test in new_tests.items() if not await workspace.holds(*test)]
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return str(error)
        for path, content in missing:
            await workspace.write(path, content)
        return ""

    # Without new tests, the request equals the request of earlier releases.
    request = {"patch": patch, **({"new_tests": [*new_tests]} if new_tests else {})}
    return await session.act("apply", request, apply, str, depends_on=dict(new_tests))


def regressions(before: TestRun | None, done: TestRun) -> list[str]:
    """Return the tests that fail or no longer run, but did not fail at the base commit.

    Each is one line. An exit code that differs from 0 and from the exit code before is also a
    regression.
    """
    expected_failures = {*before.failed, *before.errors} if before else set()
    new = [name for name in (*done.failed, *done.errors) if name not in expected_failures]
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


MOST_COVERING = 5


async def find_covering(
    paths: Sequence[str], patch: str, session: Session, *, among: Collection[str] | None = None
) -> list[str]:
    """Return the test files that most likely cover a patch of some files, the likeliest first.

    With `among`, such as the tests of the base commit, others take no place.
    """
    names = get_changed_names(patch)

    async def look(workspace: Workspace) -> list[str]:
        files = await query(
            workspace, lambda each: covering(each.symbols, each.texts, paths, names, among)
        )
        return files[:MOST_COVERING]

    return await session.act(
        "tests covering", {"paths": list(paths)}, look, list[str], depends_on=names
    )


MAX_FILES_OF_A_FOLDER = 40
"""A folder with more test files stands for the first of them, so that a run of tests ends."""


def find_test_files(
    named: Iterable[str], test_files: Sequence[str], runner: TestRunner
) -> tuple[str, ...]:
    """Return the test files that the names mean, in the order of the names, without duplicates.

    A name is a path in any spelling, an id such as `tests/test_io.py::test_load`, a folder, or
    the runner's own name of a file or of a test in it. Other names mean nothing. Files that the
    runner does not take are left out.
    """
    taken = [path for path in test_files if runner.runs(path)]
    labels = dict(zip(runner.names(taken), taken, strict=True))
    files: dict[str, None] = {}
    for name in named:
        files.update(dict.fromkeys(_meant(name.strip(), taken, labels)))
    return tuple(files)


def _meant(name: str, test_files: Sequence[str], labels: dict[str, str]) -> list[str]:
    path = normpath(name.partition("::")[0].strip() or "?")
    if path in test_files:
        return [path]
    inside = [file for file in test_files if path == "." or file.startswith(f"{path}/")]
    if inside:
        return inside[:MAX_FILES_OF_A_FOLDER]
    parts = name.split(".")
    dotted = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next(([labels[label]] for label in dotted if label in labels), [])


@dataclass(frozen=True)
class NamedFiles:
    """The files that names mean, and the names that mean none."""

    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """One line for each name that cannot be run, with the reason."""


async def find_named(
    names: Sequence[str], test_files: Sequence[str], runner: TestRunner, session: Session
) -> NamedFiles:
    """Return the test files that a model means, in the order of its names.

    A file of the repository counts even if its name is not a test's name. `test_files` are the test
    files of the base commit. Only for names of others is a step made.
    """
    inside = [name.strip().removeprefix(f"{session.workspaces.root}/") for name in names]
    meant = {name: find_test_files([name], test_files, runner) for name in inside}
    others = [name for name in meant if not meant[name]]
    paths = {name: normpath(name.partition("::")[0].strip() or "?") for name in others}
    existing: list[str] = []
    if others:

        async def look(workspace: Workspace) -> list[str]:
            inner = [path for path in paths.values() if not path.startswith(("/", ".."))]
            return [*await workspace.originals(inner)]

        request = {"names": others}
        existing = await session.act("named tests", request, look, list[str], depends_on={})
    refused = []
    for name, path in paths.items():
        if path not in existing:
            refused.append(f"{name} is not a file of the repository")
        elif not runner.runs(path):
            refused.append(f"{name} is not taken by the test command of the repository")
        else:
            meant[name] = (path,)
    files = dict.fromkeys(file for name in inside for file in meant[name])
    return NamedFiles(tuple(files), tuple(refused))
