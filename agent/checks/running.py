"""A patch applied, and tests run, in the work tree of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from agent.errors import Undone
from agent.session.session import Session
from agent.tools import Protection, TestRun, ToolSettings
from agent.tools.protection import explain
from agent.tools.testing import run_paths
from agent.workspaces.protocol import Workspace

_NO_RESULT = 125


async def run_tests(
    paths: Sequence[str],
    tools: ToolSettings,
    protection: Protection,
    session: Session,
    *,
    beside_an_edit: bool = False,
) -> TestRun:
    """Run test files in the session's workspace.

    Changes to protected files are reverted and reported in the output. If the run destroys the
    repository, the repository is restored and the run has no result. `beside_an_edit` is that of
    `run_paths`.
    """
    command = tools.runner.shell_command(paths)
    request = {"paths": list(paths), "command": command}
    if beside_an_edit:
        request["beside"] = "an edit of prose"

    async def run(workspace: Workspace) -> TestRun:
        done = await run_paths(workspace, tools, paths, beside_an_edit=beside_an_edit)
        put_back = await protection.enforce(workspace)
        return replace(done, output=f"{done.output}\n{explain(put_back)}") if put_back else done

    try:
        return await session.act("tests", request, run, TestRun, depends_on=[tools, protection])
    except Undone as error:
        return TestRun(command, _NO_RESULT, [], [], [], str(error), problem=str(error))


async def apply_patch(
    session: Session, patch: str, new_tests: Mapping[str, bytes] = MappingProxyType({})
) -> str:
    """Apply a patch to the session's work tree, and then write new tests by their paths.

    Return git's error, or '' if the patch applies. Tests beside a patch are one step with it,
    because each step that changes files takes a look at the whole work tree.
    """

    async def apply(workspace: Workspace) -> str:
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return str(error)
        for path, content in new_tests.items():
            await workspace.write(path, content)
        return ""

    # Without new tests, the request is the one that earlier releases recorded.
    request = {"patch": patch, **({"new_tests": [*new_tests]} if new_tests else {})}
    return await session.act("apply", request, apply, str, depends_on=dict(new_tests))
