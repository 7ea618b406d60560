"""The test runner of a repository, and runs whose results the code under test does not write.

A runner is a command, a path style, and the adapter for its results. The harness sends a parent
program, the launcher, with the command. It starts the runner with an observer in it, reads the
observer's signed records from a pipe, and seals them for this program.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import shlex
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from agent.runners.reporters import PathStyle, find_reporter
from agent.runners.reports import FORMATS, Format

Adapter = Literal["pytest", "unittest", "sympy", "summary"] | Format
"""The observer of the tests within the runner's process, or the format of the runner's report.

`summary` is neither: it runs any shell command and reads its text and exit code.
"""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PLACEHOLDER = "{paths}"
_DJANGO_RUNNER = "runtests.py"
_DJANGO_FOLDER = "tests/"
_SUFFIXES = {
    "packages": ("_test.go",),
    "classes": (".java", ".kt", ".groovy", ".scala"),
    "filters": (".java", ".kt", ".groovy", ".scala"),
}
_SCRIPTS = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
_OF_NODE = ("jest", "mocha", "tap")
_COMPILED = (".go", ".rs", ".java", ".kt", ".rb")
_CARGO_TARGET = re.compile(r"(?:.*/)?tests/(?P<name>[^/]+?)(?:/main)?\.rs")
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

    @property
    def report(self) -> Format | None:
        """The format of the report that the runner writes, None if it writes none."""
        return self.adapter if self.adapter in FORMATS else None

    def shell_command(self, paths: Sequence[str]) -> str:
        """Return the command for test files, folders or ids, relative to the root."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        match self.path_style:
            case "packages":
                tests = _select_go_tests(paths)
            case "targets":
                tests = shlex.join(f"--test={name}" for name in self.names(paths))
            case "classes":
                tests = f"-Dtest={shlex.quote(','.join(self.names(paths)))}" if paths else ""
            case "filters":
                tests = " ".join(f"--tests {shlex.quote(name)}" for name in self.names(paths))
            case _:
                tests = shlex.join(self.names(paths))
        return " ".join([*assignments, self.command.replace(_PLACEHOLDER, tests)])

    def runs(self, path: str) -> bool:
        """Return True if the command takes this test file. Others are separate programs.

        A repository may have tests in other languages, of other projects.
        """
        is_python, is_node = self.adapter in ("pytest", "unittest"), self.adapter in _OF_NODE
        if (is_python and path.endswith((*_SCRIPTS, *_COMPILED))) or (
            is_node and path.endswith((".py", *_COMPILED))
        ):
            return False
        if self.adapter == "sympy":
            return "tests" in path.split("/")[:-1]
        if self.path_style in _SUFFIXES:
            return path.endswith(_SUFFIXES[self.path_style])
        if self.path_style == "targets":
            return _CARGO_TARGET.fullmatch(path) is not None
        return self.path_style != "django" or path.startswith(_DJANGO_FOLDER)

    def names(self, paths: Sequence[str]) -> list[str]:
        """Return the names of the tests in the command."""
        match self.path_style:
            case "files" if self.adapter == "sympy":  # its runner takes only whole files
                return list(dict.fromkeys(path.partition("::")[0] for path in paths))
            case "files":
                return [f"./{path}" if path.startswith("-") else path for path in paths]
            case "django":
                return [_get_dotted_path(path.removeprefix(_DJANGO_FOLDER)) for path in paths]
            case "modules":
                return [_get_dotted_path(path) for path in paths]
            case "packages":
                return list(map(_get_go_package, paths))
            case "targets":
                matches = (_CARGO_TARGET.fullmatch(_get_file(path)) for path in paths)
                return [match["name"] if match else "" for match in matches]
            case "classes" | "filters":
                return [PurePosixPath(_get_file(path)).stem for path in paths]
            case "none":
                return [*paths]


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
    """Return the runner of a command, which has `{paths}` if it takes tests.

    Of an unknown program, only text and exit code are read.
    """
    if reporter := find_reporter(command):
        style = reporter.path_style if _PLACEHOLDER in command else "none"
        return TestRunner(reporter.complete(command), reporter.report, style, environment)
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
    head, placeholder, tail = command.partition(_PLACEHOLDER)
    if not placeholder or tail.strip() or _SHELL_SYNTAX.search(head):
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


def _get_dotted_path(path: str) -> str:
    """Return the module of a test file or folder, and the test in it."""
    file, _, name = path.partition("::")
    module = file.removesuffix(".py").strip("/").replace("/", ".")
    parts = [module.removeprefix("..").removesuffix(".__init__")]
    return ".".join([*parts, *filter(None, name.split("::"))])


def _get_file(path: str) -> str:
    return path.partition("::")[0]


def _get_go_package(path: str) -> str:
    """Return Go's name of the folder of a test file, or of a folder with all below it."""
    file = _get_file(path)
    if file.endswith(".go"):
        return f"./{PurePosixPath(file).parent}".removesuffix("/.")
    return f"./{file.strip('/')}/..." if file.strip("./") else "./..."


def _select_go_tests(paths: Sequence[str]) -> str:
    """Return Go's arguments for the tests in files. The functions are read when they are run.

    Go runs packages. An existing test of the same package could fail for another reason.
    """
    packages = shlex.join(dict.fromkeys(map(_get_go_package, paths))) if paths else "./..."
    files = list(map(_get_file, paths))
    if not files or not all(file.endswith(".go") for file in files):
        return packages
    functions = rf"sed -nE {shlex.quote(_GO_TEST)} {shlex.join(files)} | paste -sd'|' -"
    return rf'-run "^($({functions}))\$" {packages}'


_GO_TEST = r"s/^func ((Test|Example|Fuzz)\w*) *\(.*/\1/p"


PYTEST = runner_of("python -m pytest -q -rfE -p no:cacheprovider {paths}")
"""Names failures in its summary, on every version of pytest, and leaves no cache behind."""


TestOutcome = Literal["passed", "failed", "error", "skipped"]
"""`failed`: at an assertion. `error`: by anything else, such as an import or a fixture."""

_INSIDE = Path(__file__).with_name("inside")
_START = (
    "import json,sys;s,g=json.loads(sys.stdin.readline());"
    "n={'__name__':'launcher'};exec(s,n);n['main'](g)"
)
_WORST_FIRST: tuple[TestOutcome, ...] = ("error", "failed", "skipped", "passed")
_AROUND = ("setup", "teardown")


@dataclass(frozen=True)
class TestResult:
    """The end of one test."""

    __test__ = False  # not a test class, despite its name

    name: str
    outcome: TestOutcome
    report: str = ""
    """The test's own report, if it failed."""


@dataclass(frozen=True)
class ObservedResults:
    """The results of a run of tests, as observed."""

    exit_code: int
    tests: tuple[TestResult, ...]
    problem: str = ""
    """The reason why the results prove nothing, or ''. Such a run is never a pass."""


@dataclass(frozen=True)
class Run:
    """A run of tests to be made: a Python program, and the key to its results."""

    program: str
    """Reads its input, one line, from standard input."""
    given: str = field(repr=False)
    nonce: str = field(repr=False)

    @property
    def _mark(self) -> str:
        return hashlib.sha256(b"mark" + self.nonce.encode()).hexdigest()

    def read(self, output: str) -> tuple[str, ObservedResults | None]:
        """Return the text that the runner printed, and its results.

        The results are None without a sealed message, if the run was cut short.
        """
        text, message = self.open(output)
        if message is None:
            return text, None
        return text, results(message["exit_code"], message["records"], message["problem"])

    def open(self, output: str) -> tuple[str, dict[str, Any] | None]:
        """Return the text that the runner printed, and the launcher's message if it is sealed."""
        text, mark, rest = output.partition(f"\n{self._mark} ")
        payload, _, seal = rest.partition("\n")[0].partition(" ")
        expected = hmac.new(self.nonce.encode(), payload.encode(), hashlib.sha256).hexdigest()
        if not mark or not hmac.compare_digest(expected, seal):
            return text, None
        return text, json.loads(zlib.decompress(base64.b64decode(payload)))


def prepare(runner: TestRunner, paths: Sequence[str]) -> Run | None:
    """Return the observed run of the tests, or None for a runner that cannot be observed."""
    is_observed = runner.adapter != "summary" and runner.report is None
    program = program_of(runner.command) if is_observed else None
    if program is None:
        return None
    nonce = secrets.token_hex(32)
    variables = {**dict(runner.environment), **dict(program.variables)}
    if runner.adapter == "sympy":
        variables.setdefault("PYTHONHASHSEED", "0")  # otherwise it starts another process
    given = {
        "nonce": nonce,
        "targets": list(dict.fromkeys(path.partition("::")[0] for path in paths)),
        "options": list(program.interpreter_options),
        "environment": variables,
        "program": {
            "source": _source("recording", f"{runner.adapter}_run"),
            "target": program.target,
            "is_module": program.is_module,
            "cwd_on_path": program.cwd_on_path,
            "arguments": [*program.arguments, *runner.names(paths)],
        },
    }
    return Run(_START, json.dumps([_source("launcher"), given]), nonce)


@cache
def _source(*names: str) -> str:
    return "\n".join((_INSIDE / f"{name}.py").read_text(encoding="utf-8") for name in names)


def results(exit_code: int, records: Iterable[Sequence[str]], problem: str) -> ObservedResults:
    """Return the results that records prove, given the exit code of the process.

    Records and exit code must agree: neither alone proves a pass.
    """
    collected: dict[str, None] = {}
    finished: set[str] = set()
    phases: dict[str, list[TestResult | None]] = {}
    begun, end = False, ""
    for kind, *fields in records:
        match kind, fields:
            case "begin", _:
                begun = True
            case "collected", [name]:
                collected[name] = None
            case "result", [name, phase, outcome, report]:
                phases.setdefault(name, []).append(_result(name, phase, outcome, report))
                if phase == "teardown":
                    finished.add(name)
            case "stopped", [name]:
                finished.add(name)
            case "tampered", [what]:
                problem = problem or f"the code under test changed {what}"
            case "end", [code]:
                end = code
    tests = tuple(_worst(name, parts) for name, parts in phases.items())
    problem = problem or _contradiction(exit_code, begun, end, tests)
    silent = [name for name in collected if name not in finished or name not in phases]
    failing = any(test.outcome in ("failed", "error") for test in tests)
    if silent and not failing:
        problem = problem or f"{len(silent)} tests began without an end, such as {silent[0]}"
    return ObservedResults(exit_code, tests, problem)


def _result(name: str, phase: str, outcome: str, report: str) -> TestResult | None:
    """Return the result of one phase. A phase around the test proves no pass."""
    kind: TestOutcome = next((name for name in _WORST_FIRST if name == outcome), "error")
    return None if kind == "passed" and phase in _AROUND else TestResult(name, kind, report)


def _worst(name: str, phases: Sequence[TestResult | None]) -> TestResult:
    ended = [phase for phase in phases if phase is not None]
    if not ended:
        return TestResult(name, "error", "the test itself did not run")
    return min(ended, key=lambda result: _WORST_FIRST.index(result.outcome))


def _contradiction(exit_code: int, begun: bool, end: str, tests: Sequence[TestResult]) -> str:
    """Return how the exit code and the records contradict each other, or ''."""
    failing = [test.name for test in tests if test.outcome in ("failed", "error")]
    if not begun:
        return "the test runner did not start"
    if not end:
        return f"the run ended before its runner did, with exit code {exit_code}"
    if end != str(exit_code):
        return f"the runner ended with exit code {end}, and its process with {exit_code}"
    if exit_code == 0 and failing:
        return f"the exit code is 0, although tests failed, such as {failing[0]}"
    if exit_code != 0 and not failing:
        return f"the exit code is {exit_code}, although no test failed"
    return "" if tests else "no test ran"
