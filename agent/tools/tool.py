"""The definition of a tool: a name, typed arguments, and a function on a workspace."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

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


TEXT = Value("str", lambda result: result.output)
LINES = Value("list[str]", lambda result: result.output.splitlines())
NOTHING = Value("None", lambda result: None)

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
