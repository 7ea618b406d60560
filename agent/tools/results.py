"""Results of tools: text for the model, JSON for the journal."""

from dataclasses import dataclass, field
from typing import ClassVar


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
    """Skipped tests, and those that failed as expected."""
    reports: dict[str, str] = field(default_factory=dict)
    """The own reports of the first failed tests and errors, if the runner was observed."""
    problem: str = ""
    """The reason why this run proves nothing, or ''. Such a run is never a pass."""
    observed: bool = False
    """True if the harness observed the runner, so that the results do not come from its text."""


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
    """Uses before this one that failed for a reason that passed."""
    read: list[str] = field(default_factory=list)
    """Files that the result shows, relative to the root, and listed folders, which end in a slash.

    Empty for commands and tests, which may read every file."""
