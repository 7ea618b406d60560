"""The model calls of another program, which are found in the record by their content.

A restarted program repeats its requests, but not always in the same order.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agent.errors import AgentError, InfrastructureError, WorkspaceError
from agent.gateway.matching import Conversations, ProgramRequest, Records, Volatile, read_record
from agent.journal import RecordedStep
from agent.models.dialects import answering
from agent.models.protocol import Foreign, ModelReply, ModelRequest
from agent.session.session import Session
from agent.session.steps import ActionResult, Contact, Result, call_model, canonical, digest

RESTARTS = 3
"""Restarts without a new answer, after which the attempt ends as infrastructure."""

_BEGIN, _EXCUSE = {"action": "begin"}, {"action": "excuse"}


class Calls:
    """The calls of one program in one attempt. Create it once per run of the attempt."""

    def __init__(
        self, scope: Session, volatile: Sequence[str] = (), volatile_text: Sequence[str] = ()
    ) -> None:
        """Use a scope that has no other calls.

        `volatile` are the paths of fields that no digest contains, and `volatile_text` regular
        expressions of such parts of a request as JSON.
        """
        self._scope = scope
        self._volatile = Volatile(volatile, volatile_text)
        self.answered = 0
        """The requests of this run that got a model's answer, recorded or new."""
        notes = [step for step in scope.recorded if step.kind == "action"]
        self.begun = sum(step.digest == digest(canonical(_BEGIN)) for step in notes)
        """Number of starts of the program in earlier runs."""
        self._in_vain = _in_vain(scope.recorded)
        self._next = max((step.seq + 1 for step in scope.recorded), default=0)
        made = [step for step in scope.recorded if step.kind != "action"]
        self._conversations = Conversations(made)
        self.records = Records(made, self._conversations, self._volatile)
        """The calls of earlier runs."""

    @property
    def network(self) -> bool:
        """True if the program can reach other machines."""
        return self._scope.workspaces.network

    async def begin(self) -> None:
        """Record that the program is started.

        Raises:
            InfrastructureError: its last starts were all lost without a new answer. They do not
                count for the next run.
        """
        if self._in_vain > RESTARTS:
            await self.excuse()
            raise InfrastructureError(
                f"the program was started {self._in_vain} times and lost each time, without a new "
                "answer of its model: find out why its container or this process ends (memory, "
                "disk), then run again",
                retryable=False,
            )
        await self._note({**_BEGIN, "run": self.begun}, _BEGIN)

    async def excuse(self) -> None:
        """Record that the starts so far ended for known reasons and do not indicate a fault."""
        with suppress(AgentError):  # the reason may be that nothing can be recorded
            await self._note(_EXCUSE, _EXCUSE)

    async def lose(self, reason: str) -> WorkspaceError:
        """Return the error of this start, which was lost for a reason.

        It can be repeated while restarts are left. The last start is excused, so that the next run
        may start the program again.
        """
        is_last = self._in_vain >= RESTARTS and self.answered == self.records.found
        if is_last:
            await self.excuse()
            reason += f", and so was each of {self._in_vain} starts before, without a new answer"
        return WorkspaceError(reason, retryable=not is_last)

    async def _note(self, request: dict[str, Any], whole: dict[str, Any]) -> None:
        async def nothing(left_s: float) -> Result:
            return ActionResult(None)

        note = Contact("action", digest(canonical(whole)), request, nothing)
        await self._scope.step_at(note, self._new())

    async def call(self, foreign: Foreign, role: str, asked_model: str) -> ModelReply:
        """Make a model call as a step. Return the recorded answer if there is one.

        Raises:
            BudgetExhausted, OutOfTime, InfrastructureError: as in `Session.call`.
            ContextWindowExceeded, RequestRefused: the provider rejects the request.
        """
        model = answering(self._scope.model(role), foreign)
        asked = {"dialect": foreign.dialect, "role": role}
        whole = self._volatile.digest({**asked, "body": foreign.body, "headers": foreign.headers})
        made = ProgramRequest({**foreign.body, "headers": foreign.headers})
        record = self.records.find(whole, asked, made.body)
        seq = self._new() if record is None else record.seq
        request = ModelRequest(
            [],
            number=self.answered,
            role=role,
            scope=self._scope.name,
            max_tokens=foreign.asked.output_limit,
            foreign=foreign,
        )
        if record is None:
            new = self._conversations.list_new(made)
            found, summary = whole, {**asked, "asked_model": asked_model, **new}
        else:
            found, summary = record.digest, read_record(record)
        reply = await self._scope.step_at(call_model(model, request, found, summary), seq)
        assert isinstance(reply, ModelReply)
        if record is None:  # the others are there as they were recorded
            self._conversations.add(seq, made)
        self.answered += 1
        return reply

    def _new(self) -> int:
        seq, self._next = self._next, self._next + 1
        return seq


def _in_vain(recorded: Sequence[RecordedStep]) -> int:
    """Return the number of starts since the last answer or excuse."""
    starts = 0
    for step in sorted(recorded, key=lambda step: step.ordinal):
        if step.kind == "action" and step.digest == digest(canonical(_BEGIN)):
            starts += 1
        elif step.result is not None:
            starts = 0
    return starts
