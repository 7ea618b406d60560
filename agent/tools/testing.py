"""The tools that run tests and commands, and a probe of the test runner.

The summary of pytest is parsed for runners without a channel.
"""

import re
import secrets
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import PurePosixPath

from pydantic import Field

from agent.runners import NamesByResult, ObservedResults, collect_report, prepare, read_report
from agent.shortening import head_and_tail
from agent.tools.protection import confine_all
from agent.tools.rendering import render_tests
from agent.tools.tool import (
    Arguments,
    CommandEnd,
    Refused,
    SuiteResult,
    TestRun,
    Tool,
    ToolResult,
    ToolSettings,
    Value,
)
from agent.workspaces import Workspace

_CHANNEL_BYTES = 32 * 2**20
"""Room for the output of tests and the results after it."""

_REPORT_BYTES = 64 * 2**20
"""Room for reports that have one JSON object for each event."""

_LOOK_TIMEOUT_S = 60.0
_TRIES = 20
_TIMED_OUT = 124  # no test runner exits with it

_TEXTS = """
git -c safe.directory='*' ls-files -z -- '*.md' '*.rst' '*.txt' 2>/dev/null
git -c safe.directory='*' ls-files -z 2>/dev/null
"""
"""Lists the tracked files, text files first."""

_NO_TEXT = "no file can be edited beside the tests, which were not run"

_OUTPUT_CHARS = 2 * 2**20
_MAX_REPORTS = 50

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
    """Run the tests at the paths. Return their results in `tests`.

    The output names paths that do not exist, and the other paths are run.

    Raises:
        Refused: none of them exists, or one is outside the repository.
    """
    targets, missing = await _targets(workspace, settings, asked.paths)
    problem = "\n".join(f"{path} is not a file of the repository" for path in missing)
    if not targets:
        raise Refused(problem)
    tests = await run_paths(workspace, settings, targets)
    if problem:
        tests = replace(tests, output=f"{problem}\n{tests.output}")
    ok = tests.exit_code == 0 and not tests.problem
    timed_out = tests.exit_code == _TIMED_OUT
    return ToolResult(
        tests.output, ok=ok, exit_code=tests.exit_code, tests=tests, timed_out=timed_out
    )


async def run_paths(
    workspace: Workspace,
    settings: ToolSettings,
    paths: Sequence[str],
    *,
    beside_an_edit: bool = False,
) -> TestRun:
    """Run the tests at paths of the repository.

    `beside_an_edit` changes a file of text, rather than of code, for the time of the run. It stays
    changed if the run takes too long.

    Raises:
        WorkspaceError: the shell is gone.
    """
    command = settings.runner.shell_command(paths)
    if not beside_an_edit:
        return await _run(workspace, settings, command, paths)
    original = await _edit(workspace)
    if original is None:
        return TestRun(command, 1, [], [], [], _NO_TEXT, problem=_NO_TEXT)
    done = await _run(workspace, settings, command, paths)
    if done.exit_code != _TIMED_OUT:
        await workspace.write(*original)
    return done


async def _run(
    workspace: Workspace, settings: ToolSettings, command: str, paths: Sequence[str]
) -> TestRun:
    if settings.runner.report:
        return await _run_reported(workspace, settings, command)
    observed, late = prepare(settings.runner, paths), ""
    if observed is None:
        done = await workspace.run(command, timeout_s=settings.test_timeout_s)
    else:
        done = await workspace.run_python(
            observed.program,
            observed.given,
            timeout_s=settings.test_timeout_s,
            max_output_bytes=_CHANNEL_BYTES,
        )
    if done.timed_out:
        late = f"\n[the tests took longer than {settings.test_timeout_s:.0f} s and were ended]"
    if observed is None:
        return parse(command, done.exit_code, done.output + late)
    output, results = observed.read(done.output)
    output = head_and_tail(output, _OUTPUT_CHARS) + late
    if results is None:
        problem = "the run was cut short, so its results are unknown"
        return TestRun(command, done.exit_code, [], [], [], output, problem=problem, observed=True)
    return _make_test_run(command, done.exit_code, output, results)


async def _run_reported(workspace: Workspace, settings: ToolSettings, command: str) -> TestRun:
    """Run a command whose program writes a report, which is behind a mark in the output."""
    runner, mark = settings.runner, secrets.token_hex(16)
    assert runner.report is not None, "the runner writes a report"
    done = await workspace.run(
        collect_report(command, mark),
        timeout_s=settings.test_timeout_s,
        max_output_bytes=_REPORT_BYTES,
    )
    output, _, report = done.output.partition(f"\n{mark}\n")
    # Some runners print their results, such as Go, Cargo, and mocha before 9.2.
    is_printed = runner.report != "junit" and not report.strip()
    names, problem = read_report(runner.report, output if is_printed else report, done.exit_code)
    if done.timed_out:
        problem = f"the tests took longer than {settings.test_timeout_s:.0f} s and were ended"
    results = "\n".join(_state_results(names, problem))
    shown = head_and_tail(names.text or output, _OUTPUT_CHARS)
    return TestRun(
        command=command,
        exit_code=done.exit_code,
        passed=names.passed,
        failed=names.failed,
        errors=names.errors,
        output=f"{shown.rstrip()}\n{results}\n",
        skipped=names.skipped,
        reports=dict([*names.reports.items()][:_MAX_REPORTS]),
        problem=problem,
        reported=True,
    )


def _state_results(names: NamesByResult, problem: str) -> Iterator[str]:
    """Yield lines as in pytest's summary."""
    if not names.text:  # the output lacks what is in the report
        yield from (f"{name}\n{report}" for name, report in names.reports.items())
    yield from (f"FAILED {name}" for name in names.failed)
    yield from (f"ERROR {name}" for name in names.errors)
    yield f"{len(names.failing)} failed, {len(names.passed)} passed"
    if problem:
        yield f"[{problem}]"


async def _edit(workspace: Workspace) -> tuple[str, bytes] | None:
    """Add an empty line to a tracked file, of text rather than of code.

    Return its path and its content before, or None if there is no such file.
    """
    listed = await workspace.run(_TEXTS, timeout_s=_LOOK_TIMEOUT_S)
    for path in listed.output.split("\0")[:_TRIES]:
        with suppress(OSError):
            [file] = await workspace.look_up([path]) if path else [None]
            if file is not None and file.path == path and file.content is not None:
                await workspace.write(path, file.content + b"\n")
                return path, file.content
    return None


async def _targets(
    workspace: Workspace, settings: ToolSettings, paths: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return paths and test ids inside the repository, and the paths that do not exist.

    Runners other than pytest and SymPy can take other names than paths, which count as existing.
    """
    parts = [path.partition("::") for path in paths]
    files = await confine_all(workspace, [file for file, _, _ in parts])
    targets = [f"{file}{''.join(part[1:])}" for file, part in zip(files, parts, strict=True)]
    if settings.runner.adapter not in ("pytest", "sympy"):
        return targets, []
    names = shlex.join(f"./{file}" for file in files)
    look = f"for path in {names}; do [[ -e $path ]] && echo yes || echo no; done"
    done = await workspace.run(look, timeout_s=_LOOK_TIMEOUT_S)
    if done.exit_code:
        return targets, []
    exists = [line == "yes" for line in done.output.splitlines()[-len(paths) :]]
    missing = [file for (file, _, _), is_there in zip(parts, exists, strict=True) if not is_there]
    return [target for target, is_there in zip(targets, exists, strict=True) if is_there], missing


def _make_test_run(command: str, exit_code: int, output: str, results: ObservedResults) -> TestRun:
    names: dict[str, list[str]] = {"passed": [], "failed": [], "error": [], "skipped": []}
    for test in results.tests:
        names[test.outcome].append(test.name)
    contradicting = "" if exit_code == results.exit_code else "the exit code was changed"
    problem = results.problem or contradicting
    reports = [(test.name, test.report) for test in results.tests if test.report]
    return TestRun(
        command=command,
        exit_code=exit_code,
        passed=names["passed"],
        failed=names["failed"],
        errors=names["error"],
        output=f"{output}\n[{problem}]" if problem else output,
        skipped=names["skipped"],
        reports=dict(reports[:_MAX_REPORTS]),
        problem=problem,
        observed=True,
    )


def parse(command: str, exit_code: int, output: str) -> TestRun:
    """Parse pytest's summary. Without one, the results of single tests are unknown.

    Tests can print text that looks like a summary, so the last one counts.
    """
    *before, summary = _SUMMARY.split(_COLOUR.sub("", output))
    names: dict[str, list[str]] = {"PASSED": [], "XPASS": [], "FAILED": [], "ERROR": []}
    if before:
        for result in _RESULT.finditer(summary):
            names[result["status"]].append(result["id"])
    return TestRun(
        command=command,
        exit_code=exit_code,
        passed=names["PASSED"] + names["XPASS"],
        failed=names["FAILED"],
        errors=names["ERROR"],
        output=output,
    )


def _as_results(result: ToolResult) -> SuiteResult:
    run = result.tests
    assert run is not None, "a run that was not refused has results"
    return SuiteResult(
        passed=run.passed,
        failed=run.failed,
        errors=run.errors,
        exit_code=run.exit_code,
        output=render_tests(run),
    )


_TESTS = Value("SuiteResult", _as_results, (SuiteResult,))

TESTING = (Tool("run_tests", RunTests, run_tests, changes_files=True, value=_TESTS),)


class RunCommand(Arguments):
    """Run a bash command in the repository's root. Nothing goes on running after it, and
    standard input is closed."""

    command: str = Field(min_length=1)


async def run_command(
    workspace: Workspace, settings: ToolSettings, asked: RunCommand
) -> ToolResult:
    """Run the command. Return its output and its exit status."""
    timeout_s = settings.command_timeout_s
    done = await workspace.run(asked.command, timeout_s=timeout_s)
    output = done.output
    if done.timed_out:
        output += f"\n[the command took longer than {timeout_s:.0f} s and was ended]"
    return ToolResult(
        output, ok=done.exit_code == 0, exit_code=done.exit_code, timed_out=done.timed_out
    )


def _as_end(result: ToolResult) -> CommandEnd:
    return CommandEnd(
        output=result.output, exit_code=result.exit_code or 0, timed_out=result.timed_out
    )


_COMMAND = Value("CommandEnd", _as_end, (CommandEnd,))

COMMANDS = (Tool("run_command", RunCommand, run_command, changes_files=True, value=_COMMAND),)


_PROBE_TRIES = 3
_MAX_LISTED = 2000
_SMALL_BYTES = 300
"""A smaller file may have no test in it."""

_LIST_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Probe:
    """The result of running existing test files on the base commit."""

    works: bool
    reason: str = ""
    """The reason why it does not work, in one line; '' if it works."""
    runs: list[TestRun] = field(default_factory=list)
    """The runs that were made, the deciding one last."""


async def probe(workspace: Workspace, settings: ToolSettings, test_files: Sequence[str]) -> Probe:
    """Run small existing test files, one after the other, until one shows that the runner works.

    It works if a test passes and nothing contradicts that. A runner that names no tests has to
    end with exit code 0. Files that the tests leave behind are not removed.

    Raises:
        Destroyed: the tests left no repository.
        WorkspaceError: the shell is gone.
    """
    runs: list[TestRun] = []
    for path in await _smallest(workspace, settings, test_files):
        runs.append(await run_paths(workspace, settings, [path]))
        if not problem_of(runs[-1]):
            return Probe(True, runs=runs)
    if not runs:
        return Probe(False, "the repository has no test file that its runner takes")
    tried = f"`{runs[-1].command}`: " if runs[-1].command else ""
    return Probe(False, f"{tried}{problem_of(runs[-1])}", runs)


async def _smallest(
    workspace: Workspace, settings: ToolSettings, test_files: Sequence[str]
) -> list[str]:
    """Return a few test modules, the smallest that probably have a test in them.

    They are of several folders, that with the most test files first: the tests in a folder of
    examples may be made to fail.
    """
    taken = [path for path in test_files if settings.runner.runs(path)]
    if not taken:
        return []
    names = shlex.join(f"./{path}" for path in taken[:_MAX_LISTED])
    done = await workspace.run(f"wc -c -- {names} 2>&1", timeout_s=_LIST_TIMEOUT_S)
    sizes: dict[str, int] = {}
    for line in done.output.splitlines():
        size, _, name = line.strip().partition(" ./")
        if size.isdecimal():
            sizes[name] = int(size)

    def order(path: str) -> tuple[bool, bool, int, str]:
        # Not all files that a pattern takes have the name of a test.
        is_named = "test" in PurePosixPath(path).name.lower()
        return not is_named, sizes[path] < _SMALL_BYTES, sizes[path], path

    folders: dict[str, list[str]] = defaultdict(list)
    for path in sorted((path for path in taken if path in sizes), key=order):
        folders[path.partition("/")[0]].append(path)
    largest = sorted(folders.values(), key=lambda paths: -len(paths))
    in_turn = chain.from_iterable(zip_longest(*largest))
    return [path for path in in_turn if path][:_PROBE_TRIES]


def problem_of(run: TestRun) -> str:
    """Return the reason why a run does not show that the runner works, or ''."""
    if not run.problem and (run.exit_code == 0 or run.passed):
        return ""
    printed = run.output.removesuffix(f"[{run.problem}]").strip()
    last = printed.splitlines()[-1].strip()[:200] if printed else "no output"
    return f"{run.problem or f'exit code {run.exit_code}, and no test passed'}: {last}"
