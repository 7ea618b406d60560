"""The model calls of another program, which are found in the record by their content.

A restarted program repeats its requests, but not always in the same order. Each request takes the
answer of a recorded one with the same digest, and each record answers once.
"""

import copy
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from agent.errors import AgentError, InfrastructureError
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
        self._volatile_text = [re.compile(pattern) for pattern in volatile_text]
        self._volatile = [path.split(".") for path in volatile]
        self._known: dict[str, deque[int]] = defaultdict(deque)
        self._recorded: set[int] = set()
        self._used: set[int] = set()
        self._before: dict[str, Any] = {}
        self._next = 0
        self.answered = 0
        """The requests of this run that got a model's answer, recorded or new."""
        self.begun = 0
        """Number of starts of the program in earlier runs."""
        self._in_vain = _in_vain(scope.recorded)
        for step in scope.recorded:
            self._next = step.seq + 1
            if step.kind == "action":
                self.begun += step.digest == digest(canonical(_BEGIN))
                continue
            if step.result is not None:
                self._recorded.add(step.seq)
            self._known[step.digest].append(step.seq)

    @property
    def network(self) -> bool:
        """True if the program can reach other machines."""
        return self._scope.workspaces.network

    @property
    def answered_from_record(self) -> int:
        """The calls that were answered from the record so far."""
        return len(self._used & self._recorded)

    @property
    def unused(self) -> list[int]:
        """The numbers of the recorded calls that no request has repeated."""
        return sorted(self._recorded - self._used)

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
        stable = _without(foreign.body, self._volatile)
        content = canonical(
            {
                "dialect": foreign.dialect,
                "body": stable,
                "headers": foreign.headers,
                "role": role,
            }
        )
        if self._volatile_text:
            text = content.decode("utf-8", "surrogatepass")
            for pattern in self._volatile_text:
                text = pattern.sub("", text)
            content = text.encode("utf-8", "surrogatepass")
        whole = digest(content)
        records = self._known[whole]
        seq = records.popleft() if records else self._new()
        self._used.add(seq)
        request = ModelRequest(
            [],
            number=self.answered,
            role=role,
            scope=self._scope.name,
            max_tokens=foreign.asked.output_limit,
            foreign=foreign,
        )
        summary = {"role": role, "asked_model": asked_model, **self._new_in(foreign)}
        reply = await self._scope.step_at(call_model(model, request, whole, summary), seq)
        assert isinstance(reply, ModelReply)
        self.answered += 1
        return reply

    def _new(self) -> int:
        seq, self._next = self._next, self._next + 1
        return seq

    def _new_in(self, foreign: Foreign) -> dict[str, Any]:
        """Return the new messages and the changed fields since the last request."""
        before, self._before = self._before, foreign.body
        changes: dict[str, Any] = {"dialect": foreign.dialect}
        fields = {name: value for name, value in foreign.body.items() if before.get(name) != value}
        for name in ("messages", "input"):  # the conversation, in any dialect
            talk, earlier = fields.pop(name, []), before.get(name, [])
            if isinstance(talk, list) and talk:
                continues = isinstance(earlier, list) and talk[: len(earlier)] == earlier
                changes["messages"] = talk[len(earlier) :] if continues else talk
            elif talk:
                changes["messages"] = [{"role": "user", "content": talk}]
        return {**changes, "fields": fields}


def _in_vain(recorded: Sequence[RecordedStep]) -> int:
    """Return the number of starts since the last answer or excuse."""
    starts = 0
    for step in sorted(recorded, key=lambda step: step.ordinal):
        if step.kind == "action" and step.digest == digest(canonical(_BEGIN)):
            starts += 1
        elif step.result is not None:
            starts = 0
    return starts


def _without(body: dict[str, Any], paths: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return a body without the fields at some paths. `*` matches any name or number."""
    reduced = copy.deepcopy(body) if paths else body
    for path in paths:
        for holder, name in _holders(reduced, path):
            holder.pop(name, None)
    return reduced


def _holders(value: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    name, *rest = path
    if not rest:
        if isinstance(value, dict):
            yield from ((value, field) for field in (list(value) if name == "*" else [name]))
        return
    if isinstance(value, list):
        inner = value if name == "*" else value[int(name) : int(name) + 1] if name.isdigit() else []
    elif isinstance(value, dict):
        inner = list(value.values()) if name == "*" else [value.get(name)]
    else:
        inner = []
    for item in inner:
        yield from _holders(item, rest)
