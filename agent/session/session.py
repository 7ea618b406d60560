"""The only connection between agent code and the outside world.

An arm calls models and works in its workspace only through its `Session`. Every contact is one
numbered `Step`, which is recorded: a model call before and after it happens, any other step
afterwards. To resume, the arm runs again from the top: recorded steps return their results at once,
and the first unrecorded one runs live.

Steps are numbered within a scope, a path such as `plan/3` or `step-2/candidate-1`. Scopes may run
at the same time. Their steps take turns in a workspace that they share; branches have their own.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from agent.errors import InfrastructureError
from agent.journal import RecordedStep, TreeRef
from agent.models.protocol import Message, Model, ModelReply, ModelRequest
from agent.session.limits import Gate
from agent.session.log import StepLog
from agent.session.mail import Mail
from agent.session.reuse import PEOPLE, Origins
from agent.session.stepping import AttemptState, StepScope
from agent.session.steps import (
    ActionResult,
    Contact,
    Result,
    Step,
    adapter_of,
    call_model,
    canonical,
    digest,
    work_in_workspace,
)
from agent.session.workbench import BASE, Workbench, Workbenches, Workspaces
from agent.workspaces import CommandResult, Mount, Workspace

T = TypeVar("T")


async def _agree() -> bool:
    return True


class Session(StepScope):
    """One scope of an attempt. The first scope is the attempt's main line.

    Use `start`, or `scope` and `branch` of another session.
    """

    _conversation: Sequence[Message] = ()
    """The messages of the last call. The record of the next call has only what is new."""
    _calls_answered = 0

    @classmethod
    def start(
        cls,
        *,
        attempt_id: str,
        models: Mapping[str, Model],
        workspaces: Workspaces,
        log: StepLog | None = None,
        on_step: Callable[[Step], None] = lambda step: None,
        may_go_on: Callable[[], None] = lambda: None,
        limit_s: float | None = None,
        origins: Origins | None = None,
        turn_end: asyncio.Event | None = None,
        on_output: Callable[[str], None] = lambda output: None,
    ) -> Self:
        """Return the main line of an attempt.

        `models` maps roles to models. The model of role `""` answers every role without its own.
        `may_go_on` is called before every live step, and again right before a model call is sent.
        It raises Interrupted if the attempt must stop. `limit_s` bounds the time of the attempt
        over all its runs. `origins` let forks of the attempt reuse its steps. `turn_end` is set
        when a person ends a turn. `on_output` takes the output of a program that failed.
        """
        log = log or StepLog()
        attempt = AttemptState(
            attempt_id,
            models,
            workspaces,
            log,
            on_step,
            may_go_on,
            Mail(log, may_go_on),
            {(step.scope, step.seq): step for step in log.recorded},
            Workbenches(workspaces, log),
            origins or Origins(),
            turn_end,
            on_output,
        )
        deadlines = attempt.deadlines("", "the attempt", limit_s)
        return cls(attempt, "", attempt.benches.main, deadlines)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.name:
            self.attempt.benches.close(self._bench)
            return
        try:
            # An attempt that is failing keeps its own error.
            with nullcontext() if error is None else suppress(InfrastructureError):
                await self.attempt.log.flush()
        finally:
            await self.attempt.benches.end()

    def scope(
        self, name: str, *, limit_s: float | None = None, gate: Gate | None = None
    ) -> "Session":
        """Return a part of this line of work with its own step numbers, in the same workspace.

        Live steps of the scope, and of scopes inside it, have to pass the `gate`.

        Raises:
            ValueError: a scope of that name already exists.
        """
        return self._child(self._inside(name), self._bench, limit_s, gate)

    @asynccontextmanager
    async def branch(
        self,
        name: str,
        tree: TreeRef,
        *,
        limit_s: float | None = None,
        gate: Gate | None = None,
    ) -> AsyncIterator["Session"]:
        """Open a line of work with its own workspace that starts at a `tree` of this attempt.

        Raises:
            ValueError: a scope of that name already exists.
        """
        path = self._inside(name)
        bench = self.attempt.benches.bench(path, tree)
        async with self._child(path, bench, limit_s, gate) as child:
            yield child

    def prepare(self, name: str) -> None:
        """Open the workspace of a future branch from the base commit in the background."""
        self.attempt.benches.open(self._inside(name))

    def _inside(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name else name

    def _child(
        self, path: str, bench: Workbench, limit_s: float | None, gate: Gate | None
    ) -> "Session":
        deadlines = [*self._deadlines, *self.attempt.deadlines(path, path, limit_s)]
        gates = [*self._gates, gate] if gate else self._gates
        return Session(self.attempt, path, bench, deadlines, gates)

    @property
    def recorded(self) -> list[RecordedStep]:
        """The steps of this scope that earlier runs recorded or started, by number."""
        steps = (step for step in self.attempt.recorded.values() if step.scope == self.name)
        return sorted(steps, key=lambda step: step.seq)

    @property
    def next_recorded(self) -> RecordedStep | None:
        """The record that answers the next step of this scope; None if it will be live."""
        record = self.attempt.recorded.get((self.name, self._next_seq))
        return record if record is not None and record.result is not None else None

    @property
    def tree(self) -> TreeRef:
        """The work tree after the last step, for `branch` and `take`; `BASE` at first."""
        return self._bench.tree

    def model(self, role: str = "") -> Model:
        """Return the model that answers a role."""
        models = self.attempt.models
        if role not in models and "" not in models:
            raise ValueError("this arm needs a model, and the experiment gives it none")
        return models[role if role in models else ""]

    async def is_patched(self, change: str) -> bool:
        """Return False if an earlier run continued from here in this scope with older code.

        An arm asks before code that differs from the last release, once per scope and change, and
        runs the older code if it is False. So attempts in flight continue after an upgrade.
        """
        place = (self._inside(f"patch-{change}"), 0)
        if place not in self.attempt.recorded and self.attempt.has_more(self.name):
            return False
        request = {"change": change}
        return await self.scope(f"patch-{change}").event(
            "patch", request, _agree, bool, depends_on={}
        )

    async def find_window(self, role: str = "") -> int | None:
        """Return the context window of a role's model in tokens, or None if it is unknown.

        What a server says is an event, since another day it may say something else. It is read
        once in a scope.
        """
        info = self.model(role).info
        known = await asyncio.to_thread(info.context_tokens)  # the first call loads a price list
        if known is not None or info.ask_for_window is None:
            return known
        if self.recorded and (self._inside("window"), 0) not in self.attempt.recorded:
            return None  # this scope began when servers were not asked
        # In a scope of its own, so that the steps of this one keep their numbers.
        place, window = self.scope("window"), cast("type[int | None]", int | None)
        return await place.event("window", {}, info.ask_for_window, window, depends_on={})

    async def call(self, request: ModelRequest) -> ModelReply:
        """Make a model call as a step.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing was sent.
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the answer arrived.
        """
        model, messages = self.model(request.role), request.messages
        before, self._conversation = self._conversation, list(messages)
        is_longer = messages[: len(before)] == before
        whole = {"messages": messages, "tools": request.tools, "role": request.role}
        contact = call_model(
            model,
            replace(request, number=self._calls_answered, scope=self.name),
            digest(canonical(whole)),
            {"role": request.role, "messages": messages[len(before) :] if is_longer else messages},
            self.attempt.origins.of_call(request.role),
        )
        reply = await self.step_at(contact)
        assert isinstance(reply, ModelReply)
        self._calls_answered += 1
        return reply

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run a command in the workspace as a step.

        Raises:
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the command did.
            Undone: the command left no repository; the workspace was restored.
        """
        request = {"command": command, "timeout_s": timeout_s}

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            result = await workspace.run(command, timeout_s=min(timeout_s, left_s))
            if result.timed_out and left_s < timeout_s:
                raise TimeoutError
            return result

        inputs = self.attempt.origins.of_work({})
        result = await self.step_at(work_in_workspace("command", request, execute, inputs))
        assert isinstance(result, CommandResult)
        return result

    async def act(
        self,
        name: str,
        request: dict[str, Any],
        work: Callable[[Workspace], Awaitable[T]],
        result_type: type[T],
        *,
        depends_on: Any = None,
        ends_with_turn: bool = False,
    ) -> T:
        """Run any other work on the workspace as one step, which is repeated as a whole.

        `result_type` is any type that pydantic converts to JSON and back. `depends_on` is all that
        decides the result besides the request and the workspace, as values that `fingerprint`
        takes. With None, which means that it is unknown, no fork reuses the step. Work that
        `ends_with_turn` is cut off when a person ends the turn.

        Raises:
            TurnEnded: it was cut off so, now or when it was recorded.
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the work did.
            Undone: the work left no repository; the workspace was restored.
        """
        adapter = adapter_of(cast("Any", result_type))

        async def execute(left_s: float) -> Result:
            workspace = await self._bench.ready()
            try:
                async with asyncio.timeout(left_s if left_s < float("inf") else None):
                    value = await work(workspace)
            except TimeoutError:
                await self._bench.close()  # the work may have been interrupted at any point
                raise
            return ActionResult(adapter.dump_python(value, mode="json"))

        contact = work_in_workspace(
            "action",
            {"action": name, **request},
            execute,
            self.attempt.origins.of_work(depends_on),
            ends_with_turn=ends_with_turn,
        )
        result = await self.step_at(contact)
        assert isinstance(result, ActionResult)
        return cast("T", adapter.validate_python(result.content))

    async def event(
        self,
        name: str,
        request: dict[str, Any],
        read: Callable[[], Awaitable[T]],
        result_type: type[T],
        *,
        depends_on: Any = None,
        of_people: bool = False,
    ) -> T:
        """Return a reading that touches no workspace, as a step that takes no time.

        Use it for values that differ from run to run, such as the order of concurrent results. A
        reading of messages from people takes no time of any limit, and answers forks. `result_type`
        and `depends_on` are as in `act`: with the latter, a fork has the reading of its parent.

        Raises:
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the reading did.
        """
        adapter = adapter_of(cast("Any", result_type))

        async def execute(left_s: float) -> Result:
            began = time.monotonic()
            async with asyncio.timeout(None if of_people or left_s == float("inf") else left_s):
                try:
                    value = await read()
                finally:
                    if of_people:
                        for deadline in self._deadlines:
                            deadline.spend(began - time.monotonic())
                return ActionResult(adapter.dump_python(value, mode="json"))

        record = {"event": name, **request}
        inputs = PEOPLE if of_people else self.attempt.origins.of_work(depends_on)
        contact = Contact("event", digest(canonical(record)), record, execute, inputs)
        result = await self.step_at(contact)
        assert isinstance(result, ActionResult)
        return cast("T", adapter.validate_python(result.content))

    async def current_tree(self) -> TreeRef:
        """Return the work tree after every step that was asked for before, as an event."""

        async def look(left_s: float) -> Result:
            self._bench.catch_up()
            return ActionResult(str(self.tree))

        record, inputs = {"event": "tree"}, self.attempt.origins.of_work(None)
        contact = Contact("event", digest(canonical(record)), record, look, inputs, in_turn=True)
        result = await self.step_at(contact)
        assert isinstance(result, ActionResult)
        return TreeRef.parse(result.content)

    async def diff(self) -> str:
        """Return all differences from the base commit, as a step."""
        return await self.act("diff", {}, lambda workspace: workspace.diff(), str, depends_on={})

    async def diff_since(self, tree: TreeRef) -> str:
        """Return all differences from an earlier tree of this line of work, as a step."""
        since, diff = {"since": str(tree)}, self._bench.diff_since
        return await self.act("diff", since, lambda _: diff(tree), str, depends_on={})

    def mount(self, mounts: Sequence[Mount]) -> None:
        """Let containers that are opened from now on see folders or volumes, read-only."""
        self._bench.mount(mounts)

    async def take(self, tree: TreeRef) -> None:
        """Set the work tree to one of another line of work of this attempt, as a step.

        The workspace is restored when the next step needs it.
        """

        async def take(left_s: float) -> Result:
            self._bench.take(tree)
            return ActionResult(None)

        request = {"action": "take", "tree": str(tree)}
        inputs = self.attempt.origins.of_work({})
        await self.step_at(work_in_workspace("action", request, take, inputs))

    async def snapshot(self) -> None:
        """Save the whole workspace as an image, as a step.

        From then on, `tree` refers to the work tree in that image. Does nothing for a host
        workspace, which cannot be saved as an image.
        """
        await self.act("snapshot", {}, lambda workspace: self._bench.snapshot(), type(None))


__all__ = ["BASE", "Session"]
