"""The tools that a conversation offers: those of the workspace, and native ones."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent.conversation.exchanges import Helper
from agent.conversation.protocols import Call, Schema
from agent.conversation.using import ScheduledCall, Used, used
from agent.errors import TurnEnded, Undone
from agent.session.gates import Gate
from agent.session.session import Session
from agent.tools import Toolbox, ToolResult
from agent.tools.tool import Refused, parsed, schema


class Offer:
    """The tools of one conversation."""

    def __init__(
        self, session: Session, toolbox: Toolbox | None, helpers: Sequence[Helper]
    ) -> None:
        self._session = session
        self._toolbox = toolbox
        self._helpers = {helper.name: helper for helper in helpers}
        self._helped = 0
        self._replies = 0

    def schemas(self) -> list[Schema]:
        """Return the tools as OpenAI function definitions."""
        own = self._toolbox.schemas() if self._toolbox else []
        return [*own, *(schema(each.name, each.arguments) for each in self._helpers.values())]

    async def use(self, calls: Sequence[Call]) -> Used:
        """Carry out the calls of one reply."""
        self._replies += 1
        works = [self._work(call) for call in calls]
        return await used(self._session, f"reply-{self._replies}", works)

    def _work(self, call: Call) -> ScheduledCall:
        """Return the work of a call. The scopes of helpers are numbered in the order asked."""
        helper = self._helpers.get(call.name)
        if helper is None:
            return ScheduledCall(
                lambda gate: use_tool(self._session, self._toolbox, call.name, call.arguments)
            )
        try:
            asked = parsed(helper.name, helper.arguments, call.arguments)
        except Refused as refusal:
            told = ToolResult(str(refusal), ok=False)
            return ScheduledCall(lambda gate: _at_once(told), is_native=True, changes_files=False)
        self._helped += 1
        scope = f"{helper.name}-{self._helped}"

        async def work(gate: Gate) -> ToolResult:
            return await helper.help(asked, self._session.scope(scope, gate=gate))

        return ScheduledCall(work, is_native=True, changes_files=helper.changes_files)


async def use_tool(
    session: Session, toolbox: Toolbox | None, name: str, arguments: dict[str, Any]
) -> ToolResult:
    """Use a tool of the workspace as a step.

    Raises:
        OutOfTime, InfrastructureError: it could not be used.
        ToolFailed: the attempt cannot continue.
    """
    if toolbox is None:
        return ToolResult(output=f"there is no tool {name!r}; call `answer`", ok=False)
    work: Callable[[Any], Awaitable[ToolResult]]
    work = lambda workspace: toolbox.use(workspace, name, arguments)  # noqa: E731
    request = {"tool": name, "arguments": arguments}
    try:
        return await session.act(
            "tool",
            request,
            work,
            ToolResult,
            depends_on=toolbox.depends_on,
            ends_with_turn=True,
        )
    except Undone as error:
        return ToolResult(str(error), ok=False, undone=True)
    except TurnEnded as error:
        return ToolResult(str(error), ok=False)


async def _at_once(result: ToolResult) -> ToolResult:
    return result
