"""The only connection between agent code and the outside world.

An arm calls models and works in its workspace only through its `Session`. Every contact is one
numbered `Step`, which is recorded: a model call before and after it happens, any other step
afterwards. To resume, the arm runs again from the top: recorded steps return their results at once,
and the first unrecorded one runs live.

Steps are numbered within a scope, a path such as `plan/3` or `step-2/candidate-1`. Scopes may run
at the same time. Their steps take turns in a workspace that they share; branches have their own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from agent.errors import InfrastructureError
from agent.journal import RecordedStep, TreeRef
from agent.models.protocol import Message, Model, ModelReply, ModelRequest
from agent.session.contacts import Contact, contact, in_workspace
from agent.session.gates import Gate
from agent.session.log import NoLog, StepLog
from agent.session.mail import Mail
from agent.session.reuse import PEOPLE, Origins
from agent.session.stepping import AttemptState, Spent, StepScope
from agent.session.steps import ActionResult, Result, Step, adapter_of, canonical, digest
from agent.session.workbench import BASE, Workbench, Workspaces
from agent.workspaces.protocol import CommandResult, Environment, Mount, Workspace

T = TypeVar("T")


class Session:
    """One scope of an attempt. The first scope is the attempt's main line."""

    def __init__(self, line: StepScope) -> None:
        """Use `start`, or `scope` and `branch` of another session."""
        scopes = line.attempt.scopes
        if line.scope in scopes:
            raise ValueError(f"scope {line.scope!r} was used before; its steps would be mistaken")
        scopes.add(line.scope)
        self._line = line
        self._next_seq = 0
        self._conversation: list[Message] = []
        self._calls_answered = 0

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
    ) -> Self:
        """Return the main line of an attempt.

        `models` maps roles to models. The model of role `""` answers every role without its own.
        `may_go_on` is called before every live step, and again right before a model call is sent.
        It raises Interrupted if the attempt must stop. `limit_s` bounds the time of the attempt
        over all its runs. `origins` let forks of the attempt reuse its steps. `turn_end` is set
        when a person ends a turn.
        """
        log = log or NoLog()
        known = {(step.scope, step.seq): step for step in log.recorded}
        mail, origins = Mail(log, may_go_on), origins or Origins()
        attempt = AttemptState(
            attempt_id, models, workspaces, log, on_step, may_go_on, mail, known, origins, turn_end
        )
        deadlines = attempt.deadlines("", "the attempt", limit_s)
        return cls(StepScope(attempt, "", attempt.ahead.main, deadlines))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.name:
            self._attempt.ahead.close(self._bench)
            return
        try:
            # An attempt that is failing keeps its own error.
            with nullcontext() if error is None else suppress(InfrastructureError):
                await self._attempt.log.flush()
        finally:
            await self._attempt.ahead.end()

    def scope(
        self, name: str, *, limit_s: float | None = None, gate: Gate | None = None
    ) -> "Session":
        """Return a part of this line of work with its own step numbers, in the same workspace.

        Its live steps, and those of scopes inside it, have to pass the `gate`.

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
        bench = self._attempt.ahead.bench(path, tree)
        async with self._child(path, bench, limit_s, gate) as child:
            yield child

    def prepare(self, name: str) -> None:
        """Begin to open the workspace of a branch that is going to start at the base commit."""
        self._attempt.ahead.open(self._inside(name))

    def _inside(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name else name

    def _child(
        self, path: str, bench: Workbench, limit_s: float | None, gate: Gate | None
    ) -> "Session":
        deadlines = [*self._line.deadlines, *self._attempt.deadlines(path, path, limit_s)]
        gates = [*self._line.gates, gate] if gate else self._line.gates
        return Session(StepScope(self._attempt, path, bench, deadlines, gates))

    @property
    def _attempt(self) -> AttemptState:
        return self._line.attempt

    @property
    def _bench(self) -> Workbench:
        return self._line.bench

    @property
    def attempt_id(self) -> str:
        return self._attempt.attempt_id

    @property
    def steps(self) -> list[Step]:
        """The steps of the attempt, in the order in which they finished."""
        return self._attempt.steps

    @property
    def root(self) -> str:
        """Absolute path of the repository, as seen by commands."""
        return self._attempt.workspaces.root

    @property
    def environment(self) -> Environment:
        """The kind of place in which commands run."""
        return self._attempt.workspaces.environment

    @property
    def network(self) -> bool:
        """True if commands can reach other machines."""
        return self._attempt.workspaces.network

    @property
    def name(self) -> str:
        """The path of the scope."""
        return self._line.scope

    @property
    def recorded(self) -> list[RecordedStep]:
        """The steps of this scope that earlier runs recorded or began, by number."""
        own = (step for step in self._attempt.recorded.values() if step.scope == self.name)
        return sorted(own, key=lambda step: step.seq)

    @property
    def next_recorded(self) -> RecordedStep | None:
        """The record that answers the next step of this scope; None if it will be live."""
        known = self._attempt.recorded.get((self.name, self._next_seq))
        return known if known is not None and known.result is not None else None

    @property
    def mail(self) -> Mail:
        """The unread messages of the attempt."""
        return self._attempt.mail

    def events(self, name: str) -> list[Any]:
        """Return all known readings of that name in the attempt, replayed or not."""
        return self._attempt.events(name)

    @property
    def spent(self) -> Spent:
        """The model calls of the attempt, including those that are not replayed yet."""
        return self._attempt.spent

    @property
    def tree(self) -> TreeRef:
        """The work tree after the last step, for `branch` and `take`; `BASE` at first."""
        return self._bench.tree

    def model(self, role: str = "") -> Model:
        """Return the model that answers a role."""
        models = self._attempt.models
        if role not in models and "" not in models:
            raise ValueError("this arm needs a model, and the experiment gives it none")
        return models[role if role in models else ""]

    async def call(self, request: ModelRequest) -> ModelReply:
        """Make a model call as a step.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing was sent.
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the answer arrived.
        """
        model = self.model(request.role)
        numbered = replace(request, number=self._calls_answered, scope=self.name)
        asked = {"messages": request.messages, "tools": request.tools, "role": request.role}
        whole = digest(canonical(asked))
        kept = {"role": request.role, "messages": self._new(request.messages)}
        inputs = self._attempt.origins.of_call(request.role)
        reply = await self._step(contact(model, numbered, whole, kept, inputs))
        assert isinstance(reply, ModelReply)
        self._calls_answered += 1
        return reply

    def _new(self, messages: list[Message]) -> list[Message]:
        """Return the messages that are new to the conversation, or all if it was changed."""
        before, self._conversation = self._conversation, list(messages)
        return messages[len(before) :] if messages[: len(before)] == before else messages

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

        inputs = self._attempt.origins.of_work({})
        result = await self._step(in_workspace("command", request, execute, inputs))
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
                    done = await work(workspace)
            except TimeoutError:
                await self._bench.close()  # the work may have been interrupted at any point
                raise
            return ActionResult(adapter.dump_python(done, mode="json"))

        asked = {"action": name, **request}
        inputs = self._attempt.origins.of_work(depends_on)
        asked_for = in_workspace("action", asked, execute, inputs, ends_with_turn=ends_with_turn)
        result = await self._step(asked_for)
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

        Use it for what differs from run to run, such as the order in which concurrent work ends.
        One of what people say takes no time of any limit, and answers forks. `result_type` and
        `depends_on` are those of `act`: with the latter, a fork has the reading of its parent.

        Raises:
            DivergenceError: the step recorded at this position has a different request.
            OutOfTime: the time of this line of work ended before the reading did.
        """
        adapter = adapter_of(cast("Any", result_type))

        async def execute(left_s: float) -> Result:
            async with asyncio.timeout(None if of_people or left_s == float("inf") else left_s):
                done = await (self._line.off_the_clock(read()) if of_people else read())
                return ActionResult(adapter.dump_python(done, mode="json"))

        asked = {"event": name, **request}
        inputs = PEOPLE if of_people else self._attempt.origins.of_work(depends_on)
        result = await self._step(
            Contact("event", digest(canonical(asked)), asked, execute, inputs=inputs)
        )
        assert isinstance(result, ActionResult)
        return cast("T", adapter.validate_python(result.content))

    async def current_tree(self) -> TreeRef:
        """Return the work tree after every step that was asked for before, as an event."""

        async def look(left_s: float) -> Result:
            self._bench.catch_up()
            return ActionResult(str(self.tree))

        asked, inputs = {"event": "tree"}, self._attempt.origins.of_work(None)
        known = digest(canonical(asked))
        result = await self._step(Contact("event", known, asked, look, inputs=inputs, in_turn=True))
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

        asked = {"action": "take", "tree": str(tree)}
        inputs = self._attempt.origins.of_work({})
        await self._step(in_workspace("action", asked, take, inputs))

    async def snapshot(self) -> None:
        """Save the whole workspace as an image, as a step.

        From then on, `tree` refers to the work tree in that image. Does nothing for a host
        workspace, which cannot be saved as an image.
        """
        await self.act("snapshot", {}, lambda workspace: self._bench.snapshot(), type(None))

    async def _step(self, request: Contact) -> Result:
        """Make the next step of the scope, as `Line.step` does."""
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        return await self._line.step(seq, request)

    async def step_at(self, seq: int, request: Contact) -> Result:
        """Make the step of a number, as `Line.step` does. The scope then has no other steps."""
        return await self._line.step(seq, request)


__all__ = ["BASE", "Session"]
