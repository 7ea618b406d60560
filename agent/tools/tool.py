"""The definition of a tool: a name, typed arguments, and a function on a workspace."""

import inspect
import json
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from agent.errors import AgentError, ToolFailed
from agent.runners import PYTEST, TestRunner
from agent.workspaces import Workspace


@dataclass(frozen=True)
class TestRun:
    """One run of tests, as reported by the runner's exit status and summary."""

    __test__: ClassVar[bool] = False  # not a test class, despite its name

    command: str
    exit_code: int
    """Exit code of the runner.

    0: passed. For pytest, 1: tests failed, 2 to 5: the requested tests did not run (interrupted,
    internal error, wrong usage, no tests). 124: timed out.
    """
    passed: list[str]
    """Ids of tests as the runner names them, such as `tests/test_io.py::test_load[utf-8]`."""
    failed: list[str]
    """Tests that failed at an assertion, if the runner was observed; otherwise all that failed."""
    errors: list[str]
    """Tests that ended by any other error, and files that could not be collected."""
    output: str
    skipped: list[str] = field(default_factory=list)
    """Skipped tests, and tests that failed as expected."""
    reports: dict[str, str] = field(default_factory=dict)
    """The own reports of the first failed tests and errors, if the runner was observed."""
    problem: str = ""
    """The reason why this run proves nothing, or ''. Such a run is never a pass."""
    observed: bool = False
    """True if the harness observed the runner, so that the results do not come from its text."""
    reported: bool = False
    """True if they come from the runner's own report, which code under test could forge."""


@dataclass(frozen=True)
class ToolResult:
    """The result of one use of a tool."""

    output: str
    """The whole output; at most 2 MiB for a command."""
    ok: bool = True
    """False if a command failed or the use was refused. For a refusal, `output` says what to do."""
    exit_code: int | None = None
    """Set by tools that run a command."""
    changed: list[str] = field(default_factory=list)
    """Files that the use changed, relative to the root, without ignored and restored files."""
    put_back: list[str] = field(default_factory=list)
    """Protected files that the use had changed and that were restored."""
    tests: TestRun | None = None
    artifact: str = ""
    """The file with the whole output, if that is too long for a prompt."""
    timed_out: bool = False
    """True if the time limit of a command ended it."""
    undone: bool = False
    """True if the use left no repository, so that everything was put back."""
    retries: int = 0
    """Earlier uses that failed for a temporary reason."""
    read: list[str] = field(default_factory=list)
    """Files that the result shows, relative to the root, and listed folders, which end in a slash.

    Empty for commands and tests, which may read every file."""
    data: Any = None
    """The value for a program as JSON, from a tool whose output is made for readers. None in direct
    uses, and in records of earlier releases."""


class SuiteResult(TypedDict):
    """The results of a run of tests. `exit_code` is the runner's own."""

    passed: list[str]
    failed: list[str]
    errors: list[str]
    exit_code: int
    output: str


class CommandEnd(TypedDict):
    """A command that has ended. `output` has what it wrote to standard output and error."""

    output: str
    exit_code: int
    timed_out: bool


class Refused(Exception):
    """A tool cannot do what was requested. The message, for the model, says how to continue."""


def _remove_titles(schema: dict[str, Any]) -> None:
    for part in (schema, *schema["properties"].values()):
        part.pop("title", None)


class Arguments(BaseModel):
    """Base of all arguments. A subclass's docstring is the tool's description."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_remove_titles)

    @model_validator(mode="before")
    @classmethod
    def _has_text_only(cls, given: Any) -> Any:
        """Reject text that JSON can contain but file names and commands cannot."""
        if not all(is_plain(text) for text in _strings(given)):
            raise ValueError("NUL characters and lone surrogates are not allowed")
        return given


def is_plain(text: str) -> bool:
    """Return True if a text can be a file's name and part of a command."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text


def _strings(given: Any) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict | list):
        for value in (*given, *given.values()) if isinstance(given, dict) else given:
            yield from _strings(value)


@dataclass(frozen=True)
class ToolSettings:
    """Settings of an attempt's tools."""

    runner: TestRunner = PYTEST
    command_timeout_s: float = 180.0
    test_timeout_s: float = 600.0


@dataclass(frozen=True)
class Value:
    """The value that a tool returns to a program."""

    type: str
    """As an annotation of Python."""
    of: Callable[[ToolResult], Any]
    """Returns JSON."""
    classes: tuple[Any, ...] = ()
    """The subclasses of TypedDict that the annotation names."""


TEXT = Value("str", lambda result: result.output if result.data is None else result.data)
NOTHING = Value("None", lambda result: None)


def list_of(row: Any, *classes: Any) -> Value:
    """Return the value of a tool whose data is a list of such dictionaries.

    `classes` are those that they hold. A tool of an earlier release returned lines of text.
    """

    def read(result: ToolResult) -> Any:
        return result.output.splitlines() if result.data is None else result.data

    return Value(f"list[{row.__name__}]", read, (*classes, row))


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool."""

    name: str
    arguments: type[A]
    run: Callable[[Workspace, ToolSettings, A], Awaitable[ToolResult]]
    """Raises `Refused` if the model's request is impossible, `Retryable` for a reason that may
    pass, and `ToolFailed` if the attempt cannot continue."""
    changes_files: bool = False
    value: Value = TEXT

    @property
    def schema(self) -> dict[str, Any]:
        """An OpenAI function definition."""
        return schema(self.name, self.arguments)


def schema(name: str, arguments: type[Arguments]) -> dict[str, Any]:
    """Return the OpenAI function definition of a tool with these arguments."""
    parameters = json_schema(arguments)
    parameters.pop("description", None)
    function = {
        "name": name,
        "description": " ".join((arguments.__doc__ or "").split()),
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


_BUGS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""Errors of a tool that other arguments do not cure."""

_OF_FILES = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


async def run_tool(name: str, tool: Callable[..., Any], *given: Any) -> ToolResult:
    """Run a tool, or a native one.

    An error that a tool of others does not raise on purpose names the tool, the file and the line.
    It goes back to the model, or ends the attempt if the tool is at fault.

    Raises:
        Refused, AgentError: the tool raised it.
        ToolFailed: the tool is at fault, and every replay would show that again.
        OSError: a disk, a connection or a server failed.
    """
    try:
        result = await tool(*given)
    except (AgentError, Refused):
        raise
    except Exception as error:
        is_own = str(getattr(getattr(tool, "func", tool), "__module__", "")).startswith("agent.")
        if is_own or (isinstance(error, OSError) and not isinstance(error, _OF_FILES)):
            raise
        text = f"tool {name} failed at {_find_line(tool, error)}: {type(error).__name__}: {error}"
        if isinstance(error, _BUGS):
            raise ToolFailed(text) from error
        return ToolResult(text, ok=False)
    if not isinstance(result, ToolResult):
        raise ToolFailed(
            f"tool {name} returns {type(result).__name__}, but has to return ToolResult"
        )
    return result


def _find_line(tool: Callable[..., Any], error: Exception) -> str:
    """Return the last line of the tool's own file that an error passed, as `tools.py:12`."""
    code = getattr(inspect.unwrap(getattr(tool, "func", tool)), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code and frame.filename == code.co_filename] or frames
    if own[-1].filename == __file__ and code:  # it is not a coroutine function
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model, which Pydantic computes once: that takes a millisecond.

    The result is the caller's own, because providers' clients edit schemas.
    """
    return dict(json.loads(_json_schema(model)))


@lru_cache(maxsize=256)
def _json_schema(model: type[BaseModel]) -> str:
    return json.dumps(model.model_json_schema())


def parse_arguments(name: str, kind: type[A], given: Mapping[str, Any] | str) -> A:
    """Return the arguments of a tool. `given` is an object, or JSON as sent by models.

    Raises:
        Refused: the arguments are invalid.
    """
    try:
        return kind.model_validate(json.loads(given) if isinstance(given, str) else given)
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, [".".join(map(str, problem["loc"])), problem["msg"]]))
            for problem in error.errors()
        ]
    except (ValueError, RecursionError) as error:
        problems = [f"not a JSON object: {error}"]
    raise Refused(f"wrong arguments of {name}: {'; '.join(problems)}")
