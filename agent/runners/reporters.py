"""Runners that write a report, as one table, and the shell around their commands.

The runner's process writes the report, so code under test could forge it. Its names and the exit
code have to agree.
"""

import re
from dataclasses import dataclass
from typing import Literal

from agent.runners.reports import Format

PathStyle = Literal[
    "files", "django", "modules", "packages", "targets", "classes", "filters", "none"
]
"""The names of test files in a command.

By path, by the label of Django's runner, by module, as Go's packages with functions, as
Cargo's targets, as Maven's classes, as Gradle's filters. `none`: the command runs all tests.
"""

REPORT = "$durabench_report"
"""The place in a command for the path of the file to which the runner writes its report."""


@dataclass(frozen=True)
class Reporter:
    """A test program that writes a report."""

    name: str
    program: re.Pattern[str]
    """Matches the beginning of a command, up to the place of `arguments`."""
    arguments: str
    """Make it write the report."""
    report: Format
    path_style: PathStyle
    found_in: str = ""
    """Where it leaves reports in the repository, for `find -path`, if no argument names a file."""

    def complete(self, command: str) -> str:
        """Return the command with the arguments, which it may have already."""
        match = self.program.match(command)
        if not match or f" {self.arguments}" in command:
            return command
        return f"{match[0].rstrip()} {self.arguments}{command[match.end() :]}"


def _reporter(
    name: str,
    program: str,
    arguments: str,
    report: Format,
    path_style: PathStyle,
    found_in: str = "",
) -> Reporter:
    pattern = re.compile(rf"(?:[A-Za-z_]\w*=\S*\s+)*(?:{program})(?=\s|$)")
    return Reporter(name, pattern, arguments, report, path_style, found_in)


_NODE = r"(?:npx |yarn |pnpm (?:exec )?)?(?:\./)?(?:node_modules/\.bin/)?"

REPORTERS = (
    _reporter("go test", r"go test", "-json", "go", "packages"),
    _reporter("jest", _NODE + "jest", f'--ci --json --outputFile="{REPORT}"', "jest", "files"),
    _reporter(
        "vitest",
        _NODE + r"vitest(?: run)?",
        f'--run --reporter=json --outputFile="{REPORT}"',
        "jest",
        "files",
    ),
    _reporter(
        "mocha",
        _NODE + "mocha",
        f'--reporter json --reporter-option output="{REPORT}"',
        "mocha",
        "files",
    ),
    _reporter(
        "node --test",
        "node --test",
        f"--test-reporter=tap --test-reporter-destination={REPORT}",
        "tap",
        "files",
    ),
    _reporter("cargo test", "cargo test", "--no-fail-fast", "cargo", "targets"),
    _reporter(
        "maven", r"mvn|(?:\./)?mvnw", "--batch-mode", "junit", "classes",
        "*/surefire-reports/TEST-*.xml",
    ),
    # Without `cleanTest`, Gradle writes no report of tests that it has run before.
    _reporter(
        "gradle", r"gradle|(?:\./)?gradlew", "cleanTest", "junit", "filters",
        "*/test-results/*/TEST-*.xml",
    ),
    _reporter(
        "rspec",
        r"(?:bundle exec )?(?:\./)?(?:bin/)?rspec",
        f'--format progress --format json --out "{REPORT}"',
        "rspec",
        "files",
    ),
    _reporter("ctest", "ctest", f'--output-junit "{REPORT}"', "junit", "none"),
)  # fmt: skip
"""Every program with a report. The first that matches a command is used."""


def find_reporter(command: str) -> Reporter | None:
    """Return the reporter of a command, None if its program writes no report."""
    for each in REPORTERS:
        is_asked = REPORT in each.arguments and each.arguments in command  # such as by `npm test`
        if is_asked or each.program.match(command):
            return each
    return None


def get_arguments(name: str) -> str:
    """Return the arguments of a program in the table."""
    return next(each.arguments for each in REPORTERS if each.name == name)


def collect_report(command: str, mark: str) -> str:
    """Return the shell command that prints the runner's report after a line with the mark."""
    reporter = find_reporter(command)
    find = ""
    if reporter and reporter.found_in:
        find = (
            f"find . -path '{reporter.found_in}' -newer \"{REPORT}\" -exec cat {{}} + "
            f'> "{REPORT}.all"; mv "{REPORT}.all" "{REPORT}"\n'
        )
    return (
        f"durabench_report=$(mktemp) || exit 125\n{command}\ncode=$?\n{find}"
        f'printf "\\n%s\\n" {mark}\n'
        f'cat "{REPORT}"; rm -f "{REPORT}"; exit $code'
    )
