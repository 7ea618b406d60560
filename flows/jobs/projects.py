"""The runs of the tests of several projects in one repository, as one run."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from agent.project import Suite
from agent.tools import TestRun


def name_tests(suite: Suite, suites: Sequence[Suite], run: TestRun) -> TestRun:
    """Return a run with its project in the names of its tests.

    A run that names no test is one test, which has the name of the command.
    """
    head = _find_head(suite, suites)
    passed, failed, errors, skipped = (
        [f"{head}{name}" for name in names]
        for names in (run.passed, run.failed, run.errors, run.skipped)
    )
    if run.problem or not (passed or failed or errors or skipped):
        (failed if run.exit_code or run.problem else passed).append(suite.command)
    return replace(run, passed=passed, failed=failed, errors=errors, skipped=skipped, problem="")


def take_part(run: TestRun, suite: Suite, suites: Sequence[Suite]) -> TestRun:
    """Return the tests of one of several projects in a merged run."""
    owners = {other.command: other for other in suites}
    heads = {_find_head(other, suites): other for other in suites}
    longest_first = sorted(heads, key=len, reverse=True)

    def find_owner(name: str) -> Suite | None:
        head = next((head for head in longest_first if name.startswith(head)), None)
        return owners.get(name) or (None if head is None else heads[head])

    passed, failed, errors, skipped = (
        [name for name in names if find_owner(name) == suite]
        for names in (run.passed, run.failed, run.errors, run.skipped)
    )
    code = 1 if failed or errors else 0
    return replace(
        run, exit_code=code, passed=passed, failed=failed, errors=errors, skipped=skipped
    )


def _find_head(suite: Suite, suites: Sequence[Suite]) -> str:
    """Return the start of the names of a project's tests: its folder.

    Of two programs in one folder, the second one has its name.
    """
    folder = f"{suite.folder}/" if suite.folder else ""
    first = next(other for other in suites if other.folder == suite.folder)
    return folder if suite == first else f"{suite.name}: {folder}"


def find_silent(suites: Sequence[Suite], run: TestRun, paths: Collection[str]) -> tuple[str, ...]:
    """Return the folders of further projects with tests that passed, and that name no test file."""
    folders = []
    for suite in suites[1:]:
        head, names = _find_head(suite, suites), take_part(run, suite, suites).passed
        if names and {*paths}.isdisjoint(
            name.removeprefix(head.removesuffix(f"{suite.folder}/")).partition("::")[0]
            for name in names
        ):
            folders.append(suite.folder)
    return tuple(folders)
