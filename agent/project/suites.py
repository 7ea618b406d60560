"""The tests of a project, as a command with the format of its results, and its other commands."""

from dataclasses import dataclass, replace
from typing import Literal

from agent.runners import TestRunner, runner_of

Format = Literal["observed", "unittest", "go", "cargo", "jest", "mocha", "tap", "exit code"]
"""The source of the results.

`observed`: the harness observes the runner, so that code under test cannot write results.
`unittest`: text of Python's unittest with `-v`, as Django prints it. `go`: the events of `go test
-json`. `cargo`: text of `cargo test`. `jest`: JSON of jest or vitest. `mocha`: its JSON. `tap`: the
Test Anything Protocol. `exit code`: no single test is known.
"""

_NAMED = "command"
"""The name of a suite that a user named. Its command may choose tests, so it takes no others."""

REPORT = "$durabench_report"
"""The place in a command for the path of the file to which the runner writes its results."""


@dataclass(frozen=True)
class Suite:
    """All tests of a project."""

    name: str
    """The test program, such as pytest."""
    command: str
    """A shell command that runs every test in the root of the repository."""
    results: Format

    @property
    def runner(self) -> TestRunner:
        """The runner of single test files. Without observation, the command runs all tests."""
        if self.results == "observed" and self.name != _NAMED:
            return self.observed
        nowhere = f"{REPORT.removeprefix('$')}=/dev/null; " if self.writes_a_report else ""
        return TestRunner(f"{nowhere}{self.command}")

    @property
    def observed(self) -> TestRunner:
        """The runner behind the command, with an observer if that program has one."""
        return runner_of(f"{self.command} {{paths}}")

    @property
    def writes_a_report(self) -> bool:
        """True if the results are in a file and not in the output."""
        return REPORT in self.command


def custom(command: str) -> Suite:
    """Return the suite of a command that a user named.

    A runner with an observer is observed. Of any other command, only the exit code counts. This
    includes `python3`, because observers are started with `python`.
    """
    suite = Suite(_NAMED, command, "observed")
    is_known = suite.observed.adapter != "summary" and "python3" not in command
    return suite if is_known else replace(suite, results="exit code")


@dataclass(frozen=True)
class Parts:
    """Commands of a project, and the files that led to them."""

    install: str | None
    """Installs dependencies, with network."""
    build: str | None
    tests: Suite | None
    lint: tuple[str, ...]
    why: list[str]
    suffixes: tuple[str, ...]
    """Suffixes of source files of this kind."""
