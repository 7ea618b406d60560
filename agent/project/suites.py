"""The tests of a project: a command, and the format of its results."""

from dataclasses import dataclass
from typing import Literal

from agent.runners import TestRunner, runner_of

Format = Literal["observed", "unittest", "go", "cargo", "jest", "mocha", "tap", "exit code"]
"""The source of the results.

`observed`: the harness observes the runner, so that code under test cannot write results.
`unittest`: text of Python's unittest with `-v`, as Django prints it. `go`: the events of `go test
-json`. `cargo`: text of `cargo test`. `jest`: JSON of jest or vitest. `mocha`: its JSON. `tap`: the
Test Anything Protocol. `exit code`: no single test is known.
"""

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
        if self.results == "observed":
            return runner_of(f"{self.command} {{paths}}")
        nowhere = f"{REPORT.removeprefix('$')}=/dev/null; " if self.writes_a_report else ""
        return TestRunner(f"{nowhere}{self.command}")

    @property
    def writes_a_report(self) -> bool:
        """True if the results are in a file and not in the output."""
        return REPORT in self.command


def custom(command: str) -> Suite:
    """Return the suite of a command that a user named: only its exit code counts."""
    return Suite("command", command, "exit code")
