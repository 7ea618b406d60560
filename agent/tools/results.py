"""What using a tool gives back: to the model as text, to the journal as JSON."""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class TestRun:
    """One run of tests, as the runner's exit status and summary tell it."""

    __test__: ClassVar[bool] = False  # not a test class, whatever its name suggests to pytest

    command: str
    exit_code: int
    """0 passed, 1 tests failed, 2 to 5 nothing was run as asked (interrupted, internal error,
    wrong usage, no tests), 124 the time was over."""
    passed: list[str]
    """Ids of tests, such as `tests/test_io.py::test_load[utf-8]`."""
    failed: list[str]
    errors: list[str]
    """Tests whose setup or teardown failed, and files that could not be collected."""
    output: str


@dataclass(frozen=True)
class ToolResult:
    """What one use of a tool did."""

    output: str
    """Everything it says; at most 2 MiB of what a command writes."""
    ok: bool = True
    """False where a command failed, and where the use was refused: `output` then says what
    the model can do about it."""
    exit_code: int | None = None
    """Of tools that run a command."""
    changed: list[str] = field(default_factory=list)
    """Files, relative to the root, that are not what they were before the use; ignored ones
    and those that were put back are not among them."""
    put_back: list[str] = field(default_factory=list)
    """Protected files that the use had changed and that are as before again."""
    tests: TestRun | None = None
    artifact: str = ""
    """The file that holds the whole output, where that is too long for a prompt."""
