"""Run all tests of a project in a workspace."""

from agent.project.suites import Suite
from agent.tools import TestRun, ToolSettings, run_paths
from agent.workspaces import Workspace

_SHOWN_CHARACTERS = 64_000


async def run_suite(workspace: Workspace, suite: Suite, timeout_s: float) -> TestRun:
    """Run every test. Results that contradict the exit code are a problem, never a pass.

    Raises:
        WorkspaceError: the shell is gone.
    """
    if suite.results != "exit code":
        return await run_paths(workspace, ToolSettings(suite.whole, test_timeout_s=timeout_s), [])
    done = await workspace.run(suite.command, timeout_s=timeout_s)
    late = f"the tests took longer than {timeout_s:.0f} s and were ended" if done.timed_out else ""
    output = done.output[-_SHOWN_CHARACTERS:]
    return TestRun(suite.command, done.exit_code, [], [], [], output, problem=late)
