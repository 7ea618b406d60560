"""The tool that runs tests, and the parser of pytest's summary."""

import re
import shlex
from collections.abc import Sequence

from pydantic import Field

from agent.tools.confinement import confined
from agent.tools.results import TestRun, ToolResult
from agent.tools.tool import Arguments, Tool, ToolSettings
from agent.workspaces import Workspace

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
# An id may contain anything between brackets. The reason follows ` - `.
_RESULT = re.compile(
    r"^(?P<status>PASSED|XPASS|FAILED|ERROR) (?P<id>[^\[\n]+?(?:\[.*?\])?)(?: - .*)?$",
    re.MULTILINE,
)


class RunTests(Arguments):
    """Run tests and show how each one ended."""

    paths: list[str] = Field(
        min_length=1,
        description="test files, folders, or ids such as `tests/test_io.py::test_load`",
    )


async def run_tests(workspace: Workspace, settings: ToolSettings, asked: RunTests) -> ToolResult:
    """Run the tests at the paths. Return their results in `tests`."""
    tests = await run_paths(workspace, settings, asked.paths)
    return ToolResult(tests.output, ok=tests.exit_code == 0, exit_code=tests.exit_code, tests=tests)


async def run_paths(workspace: Workspace, settings: ToolSettings, paths: Sequence[str]) -> TestRun:
    """Run the tests at the paths.

    Raises:
        Refused: a path is outside the repository.
        WorkspaceError: the shell is gone.
    """
    targets = [await _target(workspace, path) for path in paths]
    command = settings.test_command.replace("{paths}", shlex.join(targets))
    done = await workspace.run(command, timeout_s=settings.test_timeout_s)
    output = done.output
    if done.timed_out:
        output += f"\n[the tests took longer than {settings.test_timeout_s:.0f} s and were ended]"
    return parse(command, done.exit_code, output)


async def _target(workspace: Workspace, path: str) -> str:
    """Return a path or test id as an argument that no runner mistakes for an option."""
    file, colons, name = path.partition("::")
    real = await confined(workspace, file)
    return f"{'./' if real.startswith('-') else ''}{real}{colons}{name}"


def parse(command: str, exit_code: int, output: str) -> TestRun:
    """Parse pytest's summary. Without one, the results of single tests are unknown.

    Tests can print text that looks like a summary, so the last one counts.
    """
    *before, summary = _SUMMARY.split(_COLOUR.sub("", output))
    found: dict[str, list[str]] = {"PASSED": [], "XPASS": [], "FAILED": [], "ERROR": []}
    if before:
        for result in _RESULT.finditer(summary):
            found[result["status"]].append(result["id"])
    return TestRun(
        command=command,
        exit_code=exit_code,
        passed=found["PASSED"] + found["XPASS"],
        failed=found["FAILED"],
        errors=found["ERROR"],
        output=output,
    )


TESTING = (Tool("run_tests", RunTests, run_tests, changes_files=True),)
