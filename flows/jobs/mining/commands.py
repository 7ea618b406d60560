"""Test commands whose logs swebench's parsers read, by the test program of a project."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from agent.project import Project, Suite
from agent.runners import REPORT
from flows.display.errors import UsageError

AUTO = "auto"


@dataclass(frozen=True)
class LoggedTests:
    """A command that runs tests and prints the result of each."""

    command: str
    log_parser: str


def _pytest(suite: Suite, files: Sequence[str]) -> str:
    return f"{_enter(suite)}python -m pytest -rA -p no:cacheprovider {shlex.join(files)}"


def _go(suite: Suite, files: Sequence[str]) -> str:
    folders = sorted({f"./{PurePosixPath(path).parent}" for path in files})
    joined = shlex.join(folder.removesuffix("/.") for folder in folders)
    return f"{_enter(suite)}go test -v {joined}"


def _jest(suite: Suite, files: Sequence[str]) -> str:
    return f"{suite.command.partition(' --ci ')[0]} --ci --verbose {shlex.join(files)}"


def _vitest(suite: Suite, files: Sequence[str]) -> str:
    start = re.split(r" (?:--run )?--reporter=", suite.command)[0]
    run = "--run " if "--run " in suite.command else ""
    return f"{start} {run}--reporter=verbose {shlex.join(files)}"


def _mocha(suite: Suite, files: Sequence[str]) -> str:
    return f"{suite.command.partition(' --reporter ')[0]} --reporter tap"


def _enter(suite: Suite) -> str:
    return f"cd {shlex.quote(suite.folder)} && " if suite.folder else ""


class _Program(NamedTuple):
    """A test program whose log can be read."""

    log_parser: str
    make_command: Callable[[Suite, Sequence[str]], str]
    """Takes paths in the folder of the suite. Commands without paths run all tests."""
    suffixes: tuple[str, ...]


_PYTHON = (".py",)
_NODE = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_PROGRAMS = {
    "pytest": _Program("parse_log_pytest", _pytest, _PYTHON),
    "unittest": _Program(
        "parse_log_django", lambda suite, files: f"{suite.command} {shlex.join(files)}", _PYTHON
    ),
    "Django": _Program("parse_log_django", lambda suite, files: suite.command, _PYTHON),
    "go test": _Program("parse_log_gotest", _go, (".go",)),
    "cargo test": _Program("parse_log_cargo", lambda suite, files: suite.command, (".rs",)),
    "jest": _Program("parse_log_jest", _jest, _NODE),
    "vitest": _Program("parse_log_vitest", _vitest, _NODE),
    "mocha": _Program("parse_log_tap", _mocha, _NODE),
    "node --test": _Program(
        "parse_log_tap", lambda suite, files: suite.command.replace(REPORT, "stdout"), _NODE
    ),
}
"""Programs by the name of a suite."""

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


def choose_suite(project: Project, files: Sequence[str]) -> Suite | None:
    """Return the suite of a repository that runs test files, or its first one if none is known to.

    A suite in a folder comes before one of the root.
    """
    suites = [suite for suite in (project.tests, *project.others) if suite]
    fitting = [suite for suite in suites if _select(suite, files)]
    return max(fitting, key=lambda suite: len(suite.folder), default=project.tests)


def _select(suite: Suite, files: Sequence[str]) -> list[str]:
    """Return the test files that a suite runs, by their paths in its folder."""
    start = f"{suite.folder}/" if suite.folder else ""
    suffixes = _PROGRAMS[suite.name].suffixes if suite.name in _PROGRAMS else ()
    return [p.removeprefix(start) for p in files if p.startswith(start) and p.endswith(suffixes)]


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
    program = _PROGRAMS[suite.name]
    own = _select(suite, files) or files
    return LoggedTests(program.make_command(suite, own), program.log_parser)


def read_log_parser(verify: str) -> str:
    """Return the parser for the log of a command that a user named.

    Raises:
        UsageError: it starts no known test program.
    """
    for words, name in _NAMES_IN_COMMANDS.items():
        if words in verify:
            return _PROGRAMS[name].log_parser
    raise UsageError(
        f"no log parser is known for the command {verify!r}: it must name one of "
        f"{', '.join(_NAMES_IN_COMMANDS)}"
    )
