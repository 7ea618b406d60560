"""The tools that a conversation offers, and the calls of one reply.

Calls of the workspace run in order, native ones concurrently. If one call ends the conversation,
no other call starts further work. The number of that call is recorded, so that a replay ends in the
same way whatever the order of its calls.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from agent.conversation.exchanges import Helper
from agent.conversation.protocols import Call
from agent.conversation.text_calls import Schema
from agent.errors import AgentError, LimitReached, OutOfTime, ToolFailed, TurnEnded, Undone
from agent.session.limits import Gate
from agent.session.session import Session
from agent.tools import Toolbox, ToolResult
from agent.tools.tool import Refused, parse_arguments, schema

KNOWN_ENDS = (OutOfTime, LimitReached, ToolFailed)
"""Errors that end a line of work in the same way in every run."""


@dataclass(frozen=True)
class ScheduledCall:
    """One tool call to be run."""

    run: Callable[[Gate], Coroutine[Any, Any, ToolResult]]
    """Receives the gate that its scope must pass."""
    is_native: bool = False
    changes_files: bool = True


@dataclass(frozen=True)
class Used:
    """The results of the calls of one reply."""

    results: Sequence[ToolResult | None]
    """In the requested order; None for a call without a result."""
    error: BaseException | None = None
    """The error that ends the conversation."""


async def run_calls(session: Session, name: str, works: Sequence[ScheduledCall]) -> Used:
    """Run the calls of a reply. `name` is the scope that records how they were called off."""
    if len(works) > 1 and any(work.is_native for work in works):
        return await _Reply(works, session, session.scope(name)).run()
    results: list[ToolResult | None] = []
    for work in works:
        try:
            results.append(await work.run(Gate()))
        except Exception as error:
            return Used([*results, *[None] * (len(works) - len(results))], error)
    return Used(results)


class _Reply:
    """The running calls of one reply with native tools."""

    def __init__(self, works: Sequence[ScheduledCall], session: Session, ending: Session) -> None:
        self._works = works
        self._session = session
        self._ending = ending
        self._is_ended = bool(ending.recorded)
        """True if an earlier run recorded the call that ended the conversation."""
        self._gates = [Gate(is_open=not self._is_ended) for _ in works]
        self._tasks: dict[int, asyncio.Task[ToolResult]] = {}
        self._ends = asyncio.Event()
        """Set when a call ends, also while others are still to be started."""

    async def run(self) -> Used:
        """Run all calls, until they have ended or one of them ends the conversation."""
        recorded = await self._record(0) if self._is_ended else None
        if recorded is not None:
            self._gates[recorded].open()
        starting = asyncio.create_task(self._start())
        starting.add_done_callback(lambda _: self._ends.set())
        try:
            failed = await self._first_failure(starting, recorded)
            error = None if failed is None else await self._call_off(failed)
            await starting
            await asyncio.wait(self._tasks.values())
        except asyncio.CancelledError:
            for task in (starting, *self._tasks.values()):
                task.cancel()
            await asyncio.wait([starting, *self._tasks.values()])
            raise
        tasks = [self._tasks.get(number) for number in range(len(self._works))]
        results = [task.result() if task and not _error(task) else None for task in tasks]
        return Used(results, error)

    async def _start(self) -> None:
        """Start native calls. Run the calls of the workspace in between, in the requested order."""
        changing: list[asyncio.Task[ToolResult]] = []
        for number, work in enumerate(self._works):
            if self._gates[number].is_closed:
                return
            earlier = changing if work.is_native and not work.changes_files else []
            task = asyncio.create_task(self._run(number, list(earlier)))
            self._tasks[number] = task
            task.add_done_callback(lambda _: self._ends.set())
            if not work.is_native:
                await asyncio.wait({task})
            elif work.changes_files:
                changing.append(task)

    async def _run(self, number: int, earlier: "Sequence[asyncio.Task[ToolResult]]") -> ToolResult:
        """Run a call after the earlier calls that change its input."""
        work, gate = self._works[number], self._gates[number]
        if earlier:
            await asyncio.wait(earlier)
        if not work.is_native and self._session.next_recorded is None:
            await gate.wait()
        try:
            return await work.run(gate)
        except Exception:
            if not self._is_ended:
                for other in self._gates:
                    other.hold()
            raise

    async def _first_failure(
        self, starting: "asyncio.Task[None]", recorded: int | None
    ) -> int | None:
        """Wait until a call fails, or the `recorded` one. Return its number, or None."""
        while True:
            self._ends.clear()
            for number, task in self._tasks.items():
                if task.done() and recorded in (None, number):
                    if _error(task):
                        return number
                    if number == recorded:
                        recorded = None
                        for gate in self._gates:
                            gate.open()
            if all(task.done() for task in (starting, *self._tasks.values())):
                return None
            await self._ends.wait()

    async def _call_off(self, failed: int) -> BaseException | None:
        """Stop all further work, and record a known end. Return the error to raise."""
        error = _error(self._tasks[failed])
        if isinstance(error, KNOWN_ENDS) and not self._is_ended:
            try:
                await self._record(failed)
            except AgentError as unrecorded:
                error = unrecorded
        for gate in self._gates:
            gate.close(f"another call of the same reply ended: {error}")
        return error

    async def _record(self, failed: int) -> int:
        """Return the recorded number of the call that ended the conversation, or record it."""

        async def get_number() -> int:
            return failed

        return await self._ending.event("called off", {}, get_number, int)


def _error(task: "asyncio.Task[ToolResult]") -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


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
        schemas = self._toolbox.schemas() if self._toolbox else []
        helpers = self._helpers.values()
        return [*schemas, *(schema(helper.name, helper.arguments) for helper in helpers)]

    async def use(self, calls: Sequence[Call]) -> Used:
        """Run the calls of one reply."""
        self._replies += 1
        works = [self._work(call) for call in calls]
        return await run_calls(self._session, f"reply-{self._replies}", works)

    def _work(self, call: Call) -> ScheduledCall:
        """Return the work of a call. The scopes of helpers are numbered in the requested order."""
        helper = self._helpers.get(call.name)
        if helper is None:
            return ScheduledCall(
                lambda gate: use_tool(self._session, self._toolbox, call.name, call.arguments)
            )
        try:
            arguments = parse_arguments(helper.name, helper.arguments, call.arguments)
        except Refused as error:
            refusal = ToolResult(str(error), ok=False)

            async def refuse(gate: Gate) -> ToolResult:
                return refusal

            return ScheduledCall(refuse, is_native=True, changes_files=False)
        self._helped += 1
        scope = f"{helper.name}-{self._helped}"

        async def work(gate: Gate) -> ToolResult:
            return await helper.help(arguments, self._session.scope(scope, gate=gate))

        return ScheduledCall(work, is_native=True, changes_files=helper.changes_files)


async def use_tool(
    session: Session,
    toolbox: Toolbox | None,
    name: str,
    arguments: dict[str, Any],
    *,
    by_program: bool = False,
) -> ToolResult:
    """Use a tool of the workspace as a step, for the model or for a program of the model.

    Raises:
        OutOfTime, InfrastructureError: it could not be used.
        ToolFailed: the attempt cannot continue.
    """
    if toolbox is None:
        return ToolResult(output=f"there is no tool {name!r}; call `answer`", ok=False)
    try:
        return await session.act(
            "tool",
            {"tool": name, "arguments": arguments},
            lambda workspace: toolbox.use(workspace, name, arguments, by_program=by_program),
            ToolResult,
            depends_on=toolbox.depends_on,
            ends_with_turn=True,
        )
    except Undone as error:
        return ToolResult(str(error), ok=False, undone=True)
    except TurnEnded as error:
        return ToolResult(str(error), ok=False)
