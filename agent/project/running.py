"""Run all tests of a project in a workspace."""

import secrets

from agent.project.results import NamesByResult, Unreadable, parse
from agent.project.suites import Suite
from agent.tools import TestRun, ToolSettings, run_paths
from agent.workspaces import Workspace

_OUTPUT_BYTES = 64 * 2**20
"""Room for the results of suites that print one JSON object for each event."""

_SHOWN_CHARACTERS = 64_000


async def run_suite(workspace: Workspace, suite: Suite, timeout_s: float) -> TestRun:
    """Run every test. Results that contradict the exit code are a problem, never a pass.

    Raises:
        WorkspaceError: the shell is gone.
    """
    if suite.results == "observed":
        settings = ToolSettings(runner=suite.observed, test_timeout_s=timeout_s)
        return await run_paths(workspace, settings, [])
    mark = secrets.token_hex(16)
    done = await workspace.run(
        _command(suite, mark), timeout_s=timeout_s, max_output_bytes=_OUTPUT_BYTES
    )
    output, _, report = done.output.partition(f"\n{mark}\n")
    names, problem = NamesByResult(), ""
    if done.timed_out:
        problem = f"the tests took longer than {timeout_s:.0f} s and were ended"
    elif suite.results != "exit code":
        # Mocha before 9.2 prints its results and writes no report.
        has_report = suite.writes_a_report and (suite.results != "mocha" or report.strip())
        names, problem = _read(suite, report if has_report else output, done.exit_code)
    return TestRun(
        command=suite.command,
        exit_code=done.exit_code,
        passed=names.passed,
        failed=names.failed,
        errors=names.errors,
        output=output[-_SHOWN_CHARACTERS:],
        skipped=names.skipped,
        problem=problem,
    )


def _command(suite: Suite, mark: str) -> str:
    """Return the command with its report behind a mark, which no test can read."""
    if not suite.writes_a_report:
        return suite.command
    return (
        f"durabench_report=$(mktemp) || exit 125\n{suite.command}\ncode=$?\n"
        f'printf "\\n%s\\n" {mark}\n'
        'cat "$durabench_report"; rm -f "$durabench_report"; exit $code'
    )


def _read(suite: Suite, text: str, exit_code: int) -> tuple[NamesByResult, str]:
    """Return the tests in the results, and the reason why they prove nothing, or ''."""
    try:
        names = parse(suite.results, text)
    except Unreadable as error:
        return NamesByResult(), f"{error} (exit code {exit_code})"
    if exit_code == 0 and names.failing:
        return names, f"the exit code is 0, although tests failed, such as {names.failing[0]}"
    if exit_code != 0 and not names.failing:
        return names, f"the exit code is {exit_code}, although no test failed"
    return names, "" if names.passed or names.failing else "no test ran"
