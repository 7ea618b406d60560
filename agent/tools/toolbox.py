"""The tools of a role: their schemas and their use."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from agent.errors import Retryable
from agent.shortening import head_and_tail
from agent.tools.editing import EDITING
from agent.tools.protection import Protection
from agent.tools.reading import READING
from agent.tools.rendering import MAX_CHARS
from agent.tools.testing import COMMANDS, TESTING
from agent.tools.tool import (
    Arguments,
    Refused,
    Tool,
    ToolResult,
    ToolSettings,
    parse_arguments,
    run_tool,
)
from agent.workspaces import Workspace

TOOLS: Mapping[str, Tool[Any]] = {
    tool.name: tool for tool in (*READING, *EDITING, *TESTING, *COMMANDS)
}


TRIES = 3
"""Uses of a tool that fails for a reason that may pass."""


class Toolbox:
    """Some of the tools, with protection applied to every use of them."""

    def __init__(
        self,
        tools: Iterable[str | Tool[Any]],
        *,
        settings: ToolSettings | None = None,
        protection: Protection | None = None,
    ) -> None:
        """Offer tools: by their names in `TOOLS`, or as they are."""
        offered = (TOOLS[tool] if isinstance(tool, str) else tool for tool in tools)
        self._tools = {tool.name: tool for tool in offered}
        self._settings = settings or ToolSettings()
        self._protection = protection or Protection()

    @property
    def tools(self) -> Sequence[Tool[Any]]:
        """The tools, in the order given."""
        return list(self._tools.values())

    @property
    def depends_on(self) -> Any:
        """Everything that decides the result of a use besides its request and the workspace."""
        return [sorted(self._tools), self._settings, self._protection]

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools as OpenAI function definitions."""
        return [tool.schema for tool in self._tools.values()]

    async def use(
        self,
        workspace: Workspace,
        name: str,
        arguments: Mapping[str, Any] | str,
        *,
        by_program: bool = False,
    ) -> ToolResult:
        """Use a tool. `arguments` are an object, or JSON as sent by models.

        An error that the model can repair is returned as a result that is not ok. A program gets
        the data of the result, of which it keeps only as much text as a reader wants.

        Raises:
            Destroyed: the repository is gone.
            WorkspaceError: the shell is gone.
        """
        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return ToolResult(f"there is no tool {name!r} here; the tools are: {names}", ok=False)
        try:
            asked = parse_arguments(tool.name, tool.arguments, arguments)
        except Refused as refusal:
            return ToolResult(str(refusal), ok=False)
        if not tool.changes_files:
            result = await self._run(tool, workspace, asked)
            if by_program and result.data is not None:
                return replace(result, output=head_and_tail(result.output, MAX_CHARS))
            return replace(result, data=None)
        before = await workspace.tree()
        result = await self._run(tool, workspace, asked)
        put_back = await self._protection.enforce(workspace)
        is_changed = await workspace.tree() != before
        changes = await workspace.changes(since=before) if is_changed else []
        changed = [change.path.encode(errors="replace").decode() for change in changes]
        artifact = ""
        if len(result.output) > MAX_CHARS and "run_command" in self._tools:
            artifact = await keep(workspace, name, arguments, result.output)
        return replace(result, changed=changed, put_back=put_back, artifact=artifact)

    async def _run(self, tool: Tool[Any], workspace: Workspace, asked: Arguments) -> ToolResult:
        """Use a tool, and use it again where that may help."""
        tries = AsyncRetrying(
            retry=retry_if_exception_type(Retryable),
            stop=stop_after_attempt(TRIES),
            wait=_choose_wait,
            reraise=True,
        )
        async for attempt in tries:
            with attempt:
                try:
                    result = await run_tool(tool.name, tool.run, workspace, self._settings, asked)
                except Refused as refusal:
                    result = ToolResult(str(refusal), ok=False)
        return replace(result, retries=attempt.retry_state.attempt_number - 1)


def _choose_wait(state: RetryCallState) -> float:
    """Return the seconds that the tool wants to wait before its next use."""
    error = state.outcome.exception() if state.outcome else None
    return error.after_s if isinstance(error, Retryable) else 0.0


_ARTIFACT_TIMEOUT_S = 60.0


async def keep(
    workspace: Workspace, name: str, arguments: Mapping[str, Any] | str, output: str
) -> str:
    """Write an output to a file of the workspace, outside the repository.

    Return its absolute path, or '' if it cannot be written. The same use of a tool gets the same
    file, so that the model's input does not depend on how often an attempt was resumed. The file is
    removed with the workspace; the journal keeps the output.
    """
    use = json.dumps([name, arguments], sort_keys=True).encode()
    # A profile may print something first.
    done = await workspace.run('printf "\\n%s" "${TMPDIR:-/tmp}"', timeout_s=_ARTIFACT_TIMEOUT_S)
    folder = done.output.rpartition("\n")[2]
    path = f"{folder}/output-{hashlib.sha256(use).hexdigest()[:12]}.txt"
    try:
        await workspace.write(path, output.encode(errors="replace"))
    except OSError:
        return ""
    return path
