"""A patch applied, and tests run, in the work tree of a session."""

from collections.abc import Sequence
from dataclasses import replace

from agent.errors import Undone
from agent.session.session import Session
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.protection import explain
from agent.tools.testing import run_paths
from agent.workspaces.protocol import Workspace

_NO_RESULT = 125


async def run_tests(
    paths: Sequence[str], tools: ToolSettings, protection: Protection, session: Session
) -> TestRun:
    """Run test files in the session's workspace.

    Changes to protected files are reverted and reported in the output. If the run destroys the
    repository, the repository is restored and the run has no result.
    """
    command = tools.runner.shell_command(paths)
    request = {"paths": list(paths), "command": command}

    async def run(workspace: Workspace) -> TestRun:
        done = await run_paths(workspace, tools, paths)
        put_back = await protection.enforce(workspace)
        return replace(done, output=f"{done.output}\n{explain(put_back)}") if put_back else done

    try:
        return await session.act("tests", request, run, TestRun, depends_on=[tools, protection])
    except Undone as error:
        return TestRun(command, _NO_RESULT, [], [], [], str(error), problem=str(error))


async def apply_patch(session: Session, patch: str) -> str:
    """Apply a patch to the session's work tree. Return git's error, or '' if it applies."""

    async def apply(workspace: Workspace) -> str:
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return str(error)
        return ""

    return await session.act("apply", {"patch": patch}, apply, str, depends_on={})
