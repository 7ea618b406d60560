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
    commands = {each.command: each for each in suites}
    heads = sorted(((_find_head(each, suites), each) for each in suites), key=lambda x: -len(x[0]))

    def find_own(names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if suite
            == (
                commands.get(name)
                or next((each for head, each in heads if name.startswith(head)), None)
            )
        ]

    passed, failed, errors, skipped = map(
        find_own, (run.passed, run.failed, run.errors, run.skipped)
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
    first = next(each for each in suites if each.folder == suite.folder)
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
