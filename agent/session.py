"""The one door between agent code and the world.

An arm calls the model and runs commands only through its `Session`, so that every contact is
one numbered `Step`, written down before and after it happens. Resuming is running the arm
again from the top: steps that are recorded answer at once, the first that is not is live.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from agent.errors import ContextWindowExceeded, DivergenceError
from agent.journal import RecordedStep
from agent.models.protocol import Model, ModelReply, ModelRequest
from agent.steplog import NoLog, StepLog
from agent.steps import Step, StepKind, canonical, digest, encode, from_record
from agent.workspaces.protocol import Checkpoint, CommandResult, Workspace

R = TypeVar("R", ModelReply, CommandResult)


class Session:
    """The steps of one attempt, in the order in which they were finished."""

    def __init__(
        self,
        *,
        attempt_id: str,
        model: Model | None,
        workspace: Workspace,
        log: StepLog | None = None,
        on_step: Callable[[Step], None] = lambda step: None,
        may_go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """`may_go_on` is asked before every live step and raises where it may not."""
        self.attempt_id = attempt_id
        self.workspace = workspace
        self.steps: list[Step] = []
        self._model = model
        self._log = log or NoLog()
        self._recorded = {(step.scope, step.seq): step for step in self._log.recorded}
        self._on_step = on_step
        self._may_go_on = may_go_on
        self._scope = ""
        self._next_seq = 0
        self._messages_kept = 0
        self._calls_answered = 0
        self._tree = self._log.tree

    @property
    def model(self) -> Model:
        """The model of this attempt; arms that need none run without."""
        if self._model is None:
            raise ValueError("this arm asks for a model, and the experiment gives it none")
        return self._model

    async def call(self, request: ModelRequest) -> ModelReply:
        """One model call, as a step.

        Raises:
            BudgetExhausted: the call could cost more than is left; nothing was sent.
            DivergenceError: the recorded step at this place asked something else.
        """
        new, self._messages_kept = request.messages[self._messages_kept :], len(request.messages)
        numbered = replace(request, number=self._calls_answered)
        reply = await self._step(
            "model",
            {"messages": request.messages, "tools": request.tools},
            {"messages": new},
            lambda: self.model.complete(numbered),
            lambda: self.model.ceiling_usd(numbered),
        )
        self._calls_answered += 1
        return reply

    async def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """One command in the workspace, as a step.

        Raises:
            DivergenceError: the recorded step at this place asked something else.
        """
        request = {"command": command, "timeout_s": timeout_s}
        return await self._step(
            "command", request, request, lambda: self.workspace.run(command, timeout_s=timeout_s)
        )

    async def _step(
        self,
        kind: StepKind,
        request: dict[str, Any],
        kept: dict[str, Any],
        run: Callable[[], Awaitable[R]],
        ceiling_usd: Callable[[], float | None] = lambda: 0.0,
    ) -> R:
        """Answer from the record, or run and record. `kept` is what the record keeps of it."""
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        whole = canonical(request)
        known = self._recorded.get((self._scope, seq))
        if known is not None and known.result is not None:
            step = self._replayed(known, kind, kept, digest(whole))
        else:
            self._may_go_on()
            # In a thread: the first time, the price list of a model may have to be loaded.
            ceiling = await asyncio.to_thread(ceiling_usd)
            step = await self._live(seq, kind, kept, whole, ceiling, run)
        self.steps.append(step)
        self._on_step(step)
        return step.result  # type: ignore[return-value]  # of the kind that was asked for

    def _replayed(
        self, known: RecordedStep, kind: StepKind, kept: dict[str, Any], requested: str
    ) -> Step:
        if known.digest != requested or known.kind != kind:
            raise DivergenceError(
                self.attempt_id,
                known.scope,
                known.seq,
                known.request.decode("utf-8", "replace"),
                canonical(kept).decode("utf-8", "replace"),
            )
        return from_record(known)

    async def _live(
        self,
        seq: int,
        kind: StepKind,
        kept: dict[str, Any],
        whole: bytes,
        ceiling: float | None,
        run: Callable[[], Awaitable[R]],
    ) -> Step:
        request_digest, place = digest(whole), (self._scope, seq)
        await self._log.intend(*place, kind, request_digest, canonical(kept), ceiling)
        started_at, clock = datetime.now(UTC), time.perf_counter()
        try:
            result = await run()
        except ContextWindowExceeded:
            await self._log.refuse(*place)
            raise
        duration = time.perf_counter() - clock
        await self._log.record(
            *place,
            encode(result),
            cost_usd=result.usage.cost_usd if isinstance(result, ModelReply) else 0.0,
            duration_s=duration,
            checkpoint=await self._changed() if kind == "command" else None,
        )
        return Step(self._scope, seq, kind, kept, request_digest, result, started_at, duration)

    async def _changed(self) -> Checkpoint | None:
        """The work tree, if it is not what the last step left and somebody keeps it."""
        if not self._log.keeps_trees:
            return None
        tree = await self.workspace.tree()
        if tree == self._tree:
            return None
        self._tree = tree
        return await self.workspace.checkpoint()
