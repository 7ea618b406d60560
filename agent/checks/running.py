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
    limit_s: float | None = None,
) -> TestRun:
    """Run test files in the session's workspace as one step, as `run_protected` does.

    `limit_s` ends the run earlier than the settings do.

    If the run destroys the repository, the repository is restored and the run has no result.
    """
    command = tools.runner.shell_command(paths)
    request = {"paths": list(paths), "command": command}
    limited = tools
    if limit_s is not None and limit_s < tools.test_timeout_s:
        limited = replace(tools, test_timeout_s=limit_s)

    async def run(workspace: Workspace) -> TestRun:
        return await run_protected(workspace, limited, paths, protection)

    try:
        return await session.act("tests", request, run, TestRun, depends_on=[tools, protection])
    except Undone as error:
        return no_result(command, str(error))


async def run_protected(
    workspace: Workspace,
    tools: ToolSettings,
    paths: Sequence[str],
    protection: Protection,
    *,
    beside_an_edit: bool = False,
) -> TestRun:
    """Run test files. Changes to protected files are reverted and reported in the output.

    `beside_an_edit` is that of `run_paths`.

    Raises:
        Destroyed: the run left no repository.
        WorkspaceError: the shell is gone.
    """
    done = await run_paths(workspace, tools, paths, beside_an_edit=beside_an_edit)
    put_back = await protection.enforce(workspace)
    return replace(done, output=f"{done.output}\n{explain(put_back)}") if put_back else done


def no_result(command: str, problem: str) -> TestRun:
    """Return the run of a command that has no result for the given reason."""
    return TestRun(command, _NO_RESULT, [], [], [], problem, problem=problem)


def merge_runs(runs: Sequence[TestRun]) -> TestRun:
    """Return runs of different files as one. The first that failed decides the exit code."""
    if len(runs) == 1:
        return runs[0]
    return TestRun(
        command="; ".join(run.command for run in runs),
        exit_code=next((run.exit_code for run in runs if run.exit_code), 0),
        passed=[name for run in runs for name in run.passed],
        failed=[name for run in runs for name in run.failed],
        errors=[name for run in runs for name in run.errors],
        output="\n".join(run.output for run in runs),
        skipped=[name for run in runs for name in run.skipped],
        reports={name: report for run in runs for name, report in run.reports.items()},
        problem=next((run.problem for run in runs if run.problem), ""),
        observed=all(run.observed for run in runs),
    )


async def apply_patch(
    session: Session, patch: str, new_tests: Mapping[str, bytes] = MappingProxyType({})
) -> str:
    """Apply a patch to the session's work tree, and then write new tests by their paths.

    Return git's error, or '' if the patch applies. Tests beside a patch are one step with it,
    because each step that changes files takes a look at the whole work tree. A patch applies only
    to files that it knows, so it leaves a new test as it is.
    """

    async def apply(workspace: Workspace) -> str:
        missing = [each for each in new_tests.items() if not await workspace.holds(*each)]
        try:
            await workspace.apply(patch)
        except ValueError as error:
            return str(error)
        for path, content in missing:
            await workspace.write(path, content)
        return ""

    # Without new tests, the request is the one that earlier releases recorded.
    request = {"patch": patch, **({"new_tests": [*new_tests]} if new_tests else {})}
    return await session.act("apply", request, apply, str, depends_on=dict(new_tests))
