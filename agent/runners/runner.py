"""The test runner of a repository: its command, its path style, and what reads its results."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Adapter = Literal["pytest", "unittest", "sympy", "summary"]
"""The observer of the tests within the runner's process.

`summary` observes nothing: it runs any shell command and reads its text and exit code.
"""

PathStyle = Literal["files", "django", "modules"]
"""The names of test files in a command: by path, by the label of Django's runner, by module."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PLACEHOLDER = "{paths}"
_DJANGO_RUNNER = "runtests.py"
_DJANGO_FOLDER = "tests/"
# Of a shell command with these, the program that runs the tests is unknown.
_SHELL_SYNTAX = re.compile(r"[;&|<>()$`\n*?\\]|#")


@dataclass(frozen=True)
class TestRunner:
    """A way to run the tests of one repository."""

    __test__ = False  # not a test class, despite its name

    command: str
    """A shell command. `{paths}` stands for the tests, each quoted."""
    adapter: Adapter = "summary"
    path_style: PathStyle = "files"
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command needs."""

    @property
    def takes_paths(self) -> bool:
        """True if single tests can be named. Otherwise every run is of all tests."""
        return _PLACEHOLDER in self.command

    def shell_command(self, paths: Sequence[str]) -> str:
        """Return the command for test files, folders or ids, relative to the root."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        tests = shlex.join(self.names(paths))
        return " ".join([*assignments, self.command.replace(_PLACEHOLDER, tests)])

    def runs(self, path: str) -> bool:
        """Return True if the command takes this test file. Others are programs of their own."""
        if self.adapter == "sympy":
            return "tests" in path.split("/")[:-1]
        return self.path_style != "django" or path.startswith(_DJANGO_FOLDER)

    def names(self, paths: Sequence[str]) -> list[str]:
        """Return the names by which the command knows the tests."""
        match self.path_style:
            case "files" if self.adapter == "sympy":  # its runner knows no single test of a file
                return list(dict.fromkeys(path.partition("::")[0] for path in paths))
            case "files":
                return [f"./{path}" if path.startswith("-") else path for path in paths]
            case "django":
                return [_dotted(path.removeprefix(_DJANGO_FOLDER)) for path in paths]
            case "modules":
                return [_dotted(path) for path in paths]


@dataclass(frozen=True)
class Program:
    """The Python program in a runner's command."""

    target: str
    """A script, or a module."""
    is_module: bool
    interpreter_options: tuple[str, ...]
    cwd_on_path: bool
    """True for `python -m`, which makes the current folder importable."""
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def runner_of(command: str, environment: tuple[tuple[str, str], ...] = ()) -> TestRunner:
    """Return the runner of a command with `{paths}`. An unknown program has no observer."""
    program = program_of(command)
    if program is None:
        return TestRunner(command, "summary", environment=environment)
    name = program.target.rpartition("/")[2]
    if program.is_module and name == "pytest":
        return TestRunner(command, "pytest", environment=environment)
    if program.is_module and name == "unittest":
        return TestRunner(command, "unittest", "modules", environment)
    if name == _DJANGO_RUNNER:
        return TestRunner(command, "unittest", "django", environment)
    if program.target in ("bin/test", "./bin/test"):
        return TestRunner(command, "sympy", environment=environment)
    return TestRunner(command, "summary", environment=environment)


def program_of(command: str) -> Program | None:
    """Return the Python program of a plain command, or None for any other command."""
    head, found, tail = command.partition(_PLACEHOLDER)
    if not found or tail.strip() or _SHELL_SYNTAX.search(head):
        return None
    try:
        words = shlex.split(head)
    except ValueError:
        return None
    variables = []
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables.append((name, value))
    if not words:
        return None
    program, *arguments = words
    if program in ("pytest", "py.test"):
        return Program("pytest", True, (), False, tuple(arguments), tuple(variables))
    if program not in ("python", "python3"):
        return Program(program, False, (), False, tuple(arguments), tuple(variables))
    if "-m" not in arguments[:-1]:
        return None
    at = arguments.index("-m")
    options, (module, *rest) = arguments[:at], arguments[at + 1 :]
    return Program(module, True, tuple(options), True, tuple(rest), tuple(variables))


def _dotted(path: str) -> str:
    """Return the module of a test file or folder, and the test in it."""
    file, _, name = path.partition("::")
    module = file.removesuffix(".py").strip("/").replace("/", ".")
    parts = [module.removeprefix("..").removesuffix(".__init__")]
    return ".".join([*parts, *filter(None, name.split("::"))])


PYTEST = runner_of("python -m pytest -q -rfE -p no:cacheprovider {paths}")
"""Names failures in its summary, on every version of pytest, and leaves no cache behind."""
