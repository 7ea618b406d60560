"""Test commands whose logs swebench's parsers read, by the test program of a project."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.project import Suite
from agent.runners import REPORT
from flows.display.errors import UsageError

AUTO = "auto"


@dataclass(frozen=True)
class LoggedTests:
    """A command that runs tests and prints the result of each."""

    command: str
    log_parser: str


def _go(suite: Suite, files: Sequence[str]) -> str:
    folders = sorted({f"./{PurePosixPath(path).parent}" for path in files})
    return f"go test -v {shlex.join(folder.removesuffix('/.') for folder in folders)}"


def _jest(suite: Suite, files: Sequence[str]) -> str:
    return f"{suite.command.partition(' --ci ')[0]} --ci --verbose {shlex.join(files)}"


def _vitest(suite: Suite, files: Sequence[str]) -> str:
    start = re.split(r" (?:--run )?--reporter=", suite.command)[0]
    run = "--run " if "--run " in suite.command else ""
    return f"{start} {run}--reporter=verbose {shlex.join(files)}"


def _mocha(suite: Suite, files: Sequence[str]) -> str:
    return f"{suite.command.partition(' --reporter ')[0]} --reporter tap"


_PROGRAMS: dict[str, tuple[str, Callable[[Suite, Sequence[str]], str]]] = {
    "pytest": (
        "parse_log_pytest",
        lambda suite, files: f"python -m pytest -rA -p no:cacheprovider {shlex.join(files)}",
    ),
    "unittest": (
        "parse_log_django",
        lambda suite, files: f"{suite.command} {shlex.join(files)}",
    ),
    "Django": ("parse_log_django", lambda suite, files: suite.command),
    "go test": ("parse_log_gotest", _go),
    "cargo test": ("parse_log_cargo", lambda suite, files: suite.command),
    "jest": ("parse_log_jest", _jest),
    "vitest": ("parse_log_vitest", _vitest),
    "mocha": ("parse_log_tap", _mocha),
    "node --test": (
        "parse_log_tap",
        lambda suite, files: suite.command.replace(REPORT, "stdout"),
    ),
}
"""Log parser and command by the name of a suite. Those without `files` run all tests."""

_NAMES_IN_COMMANDS = {
    "pytest": "pytest",
    "unittest": "unittest",
    "manage.py test": "Django",
    "go test": "go test",
    "cargo test": "cargo test",
    "jest": "jest",
    "vitest": "vitest",
    "mocha": "mocha",
    "--test-reporter": "node --test",
}
"""Names of suites by the words of a command."""


def choose_tests(suite: Suite | None, verify: str, files: Sequence[str]) -> LoggedTests | None:
    """Return the command that runs test files, or None if the project shows none.

    Any other `verify` than `auto` is that command. It is run as it is, so it has to print the
    result of each test.

    Raises:
        UsageError: the named command starts no known test program.
    """
    if verify != AUTO:
        return LoggedTests(verify, read_log_parser(verify))
    if suite is None or suite.name not in _PROGRAMS:
        return None
    log_parser, make = _PROGRAMS[suite.name]
    return LoggedTests(make(suite, files), log_parser)


def read_log_parser(verify: str) -> str:
    """Return the parser for the log of a command that a user named.

    Raises:
        UsageError: it starts no known test program.
    """
    for words, name in _NAMES_IN_COMMANDS.items():
        if words in verify:
            return _PROGRAMS[name][0]
    raise UsageError(
        f"no log parser is known for the command {verify!r}: it must name one of "
        f"{', '.join(_NAMES_IN_COMMANDS)}"
    )
