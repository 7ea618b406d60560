"""The runs of the tests of several projects in one repository, as one run."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from agent.project import Suite
from agent.tools import TestRun


def name_tests(suite: Suite, run: TestRun) -> TestRun:
    """Return a run with the folder of its project in the names of its tests.

    A run that names no test is one test, which has the name of the command.
    """
    head = f"{suite.folder}/" if suite.folder else ""
    passed, failed, errors, skipped = (
        [f"{head}{name}" for name in names]
        for names in (run.passed, run.failed, run.errors, run.skipped)
    )
    if run.problem or not (passed or failed or errors or skipped):
        (failed if run.exit_code or run.problem else passed).append(suite.command)
    return replace(run, passed=passed, failed=failed, errors=errors, skipped=skipped, problem="")


def take_part(run: TestRun, suite: Suite, suites: Sequence[Suite]) -> TestRun:
    """Return the tests of one of several projects in a merged run."""
    others = [each for each in suites if each.folder and each != suite]

    def is_own(name: str) -> bool:
        if suite.folder:
            return name == suite.command or name.startswith(f"{suite.folder}/")
        of_others = any(name.startswith(f"{each.folder}/") for each in others)
        return not of_others and name not in {each.command for each in others}

    passed, failed, errors, skipped = (
        [name for name in names if is_own(name)]
        for names in (run.passed, run.failed, run.errors, run.skipped)
    )
    code = 1 if failed or errors else 0
    return replace(
        run, exit_code=code, passed=passed, failed=failed, errors=errors, skipped=skipped
    )


def find_silent(suites: Sequence[Suite], run: TestRun, paths: Collection[str]) -> tuple[str, ...]:
    """Return the folders of projects with tests that passed, and that name no test file."""
    folders = []
    for suite in suites:
        names = [n for n in run.passed if n.startswith(f"{suite.folder}/") or n == suite.command]
        if suite.folder and names and not {name.partition("::")[0] for name in names} & {*paths}:
            folders.append(f"{suite.folder}/")
    return tuple(folders)
