"""One role's conversation: tool use until it answers, within rounds and the context window."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from agent.arms.durable.answers import Answer
from agent.arms.durable.facts import as_markdown
from agent.arms.durable.limits import Meter
from agent.arms.durable.profile import Role
from agent.arms.durable.protocols import (
    Call,
    Malformed,
    NativeTools,
    Schema,
    TextTools,
    ToolProtocol,
)
from agent.errors import ContextWindowExceeded, Undone
from agent.models.chat import tokens
from agent.models.protocol import Message, ModelReply, ModelRequest
from agent.session.session import Session
from agent.tools import Toolbox, ToolResult
from agent.tools.rendering import render
from agent.tools.tool import Arguments, Refused, parsed, schema

A = TypeVar("A", bound=Answer)

End = Literal["answered", "malformed", "out_of_rounds", "context_full", "out_of_time"]

MALFORMED_IN_A_ROW = 3
"""Malformed replies in a row after which a conversation is given up."""

WRAP_UP_SHARE, SPILL_SHARE = 0.80, 0.95
"""Shares of the context window.

Above the first, only an answer is accepted. Above the second, no call is made.
"""

_ANSWER = "answer"


@dataclass(frozen=True)
class ToolUse:
    """One use of a tool, and its result."""

    name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass(frozen=True)
class Exchange(Generic[A]):
    """The end of a conversation."""

    answer: A | None
    """None unless the role gave a valid answer."""
    end: End
    uses: tuple[ToolUse, ...]


@dataclass(frozen=True)
class Helper:
    """A tool that another role implements."""

    name: str
    arguments: type[Arguments]
    help: Callable[[Any, Session], Awaitable[ToolResult]]
    """Receives the arguments and a scope of its own."""


@dataclass(frozen=True)
class Limits:
    """Limits on one conversation."""

    context_tokens: int
    rounds: int = 6
    """Model calls, including malformed replies."""
    tool_uses: int | None = None
    """Tool uses other than `answer`; None for as many as the rounds allow."""
    meter: Meter | None = None
    """Limits of the attempt, checked before every call; None where calls run in parallel, since
    their order differs on replay."""


async def converse(
    session: Session,
    role: Role,
    prompt: str,
    facts: Mapping[str, Any],
    answer: type[A],
    limits: Limits,
    toolbox: Toolbox | None = None,
    helpers: Sequence[Helper] = (),
    uses: list[ToolUse] | None = None,
) -> Exchange[A]:
    """Ask a role, let it use its tools, and return its answer.

    `facts` is the role's whole input. `session` is a scope of its own. `uses` is filled as tools
    are used, for callers that need it when time runs out.

    Raises:
        BudgetExhausted, OutOfTime, InfrastructureError: as in the session's steps.
    """
    talk = Conversation(session, role, prompt, facts, answer, limits, toolbox, helpers, uses)
    return await talk.until_answer()


def prompt_beside(module: str, name: str = "") -> str:
    """Return the prompt beside a phase's module: `<module>.md`, or `<name>.md`."""
    path = Path(module)
    return (path.with_name(f"{name}.md") if name else path.with_suffix(".md")).read_text("utf-8")


class Conversation(Generic[A]):
    """A role's conversation, which can continue after an answer."""

    def __init__(
        self,
        session: Session,
        role: Role,
        prompt: str,
        facts: Mapping[str, Any],
        answer: type[A],
        limits: Limits,
        toolbox: Toolbox | None = None,
        helpers: Sequence[Helper] = (),
        uses: list[ToolUse] | None = None,
    ) -> None:
        """Open the conversation. The parameters are those of `converse`."""
        native = session.model(role).info.native_tools
        self._protocol: ToolProtocol = NativeTools() if native else TextTools()
        self._session = session
        self._limits = limits
        self._left = limits.rounds
        self._uses = [] if uses is None else uses
        self._answered: list[Call] = []
        self._facts = facts
        self._role = role
        self._answer = answer
        self._toolbox = toolbox
        self._helpers = {helper.name: helper for helper in helpers}
        self._helped = 0
        helping = [schema(helper.name, helper.arguments) for helper in helpers]
        self._schemas = [*(toolbox.schemas() if toolbox else []), *helping, _schema(answer)]
        told = f"{prompt}\n\n{self._protocol.instructions(self._schemas)}"
        self._messages: list[Message] = [
            {"role": "system", "content": told},
            {"role": "user", "content": as_markdown(facts)},
        ]
        self._counted, self._known_tokens = 0, 0

    async def until_answer(self) -> Exchange[A]:
        """Let the role use its tools until it answers, or its rounds or its context are used up.

        Raises:
            BudgetExhausted, OutOfTime, InfrastructureError: as in the session's steps.
        """
        malformed = 0
        while self._left > 0:
            if self._limits.meter is not None:
                self._limits.meter.check()
            self._left -= 1
            share = self.tokens / self._limits.context_tokens
            if share > SPILL_SHARE:
                return self._ended("context_full")
            try:
                reply = await self._next_reply(only_answer=share > WRAP_UP_SHARE)
            except ContextWindowExceeded:
                return self._ended("context_full")
            try:
                calls = self._protocol.calls(reply)
                given = self._answer_in(calls)
            except Malformed as problem:
                malformed += 1
                if malformed == MALFORMED_IN_A_ROW:
                    return self._ended("malformed")
                self._complain(reply, str(problem))
                continue
            malformed = 0
            if given is not None:
                self._answered = calls
            if share > WRAP_UP_SHARE:
                return self._ended("context_full", given)
            if given is not None:
                return self._ended("answered", given)
            tool_uses = self._limits.tool_uses
            left = None if tool_uses is None else tool_uses - len(self._uses)
            await self._use(calls, left, self._uses)
        return self._ended("out_of_rounds")

    def tell(self, text: str) -> None:
        """Respond to the answer, so that the conversation continues with `until_answer`."""
        if self._answered:
            self._messages += self._protocol.results([(call, text) for call in self._answered])
            self._answered = []
        else:
            self._messages.append({"role": "user", "content": text})

    def _ended(self, end: End, answer: A | None = None) -> Exchange[A]:
        return Exchange(answer, end, tuple(self._uses))

    @property
    def tokens(self) -> int:
        """Size of the conversation: the provider's token count, plus an estimate of the rest."""
        return self._known_tokens + tokens(self._messages[self._counted :])

    async def _next_reply(self, *, only_answer: bool) -> ModelReply:
        schemas = self._schemas[-1:] if only_answer else self._schemas
        if only_answer:
            full = "The context window is nearly full: answer now, with what you have."
            self._messages.append({"role": "user", "content": full})
        offered = self._protocol.offered(schemas)
        request = ModelRequest(list(self._messages), offered, role=self._role, facts=self._facts)
        reply = await self._session.call(request)
        self._messages.append(reply.message)
        self._known_tokens = reply.usage.input_tokens + reply.usage.output_tokens
        self._counted = len(self._messages)
        return reply

    def _answer_in(self, calls: list[Call]) -> A | None:
        """Return the role's answer, or None if it is not among the calls.

        Raises:
            Malformed: the answer does not fit its schema.
        """
        for call in calls:
            if call.name == _ANSWER:
                try:
                    return self._answer.model_validate(call.arguments)
                except ValidationError as error:
                    raise Malformed(f"the answer does not fit: {_problems(error)}") from None
        return None

    def _complain(self, reply: ModelReply, problem: str) -> None:
        self._messages += self._protocol.complaint(reply, f"{problem}. Please try again.")

    async def _use(self, calls: list[Call], left: int | None, uses: list[ToolUse]) -> None:
        """Use the requested tools, as many as are left, and add their results to the messages."""
        outputs: list[tuple[Call, str]] = []
        for number, call in enumerate(calls):
            if left is not None and number >= left:
                outputs.append((call, "No tool uses are left in this turn; answer now."))
                continue
            result = await self._used(call)
            uses.append(ToolUse(call.name, call.arguments, result))
            outputs.append((call, render(result)))
        self._messages += self._protocol.results(outputs)

    async def _used(self, call: Call) -> ToolResult:
        if call.name in self._helpers:
            return await self._help(self._helpers[call.name], call)
        toolbox = self._toolbox
        if toolbox is None:
            return ToolResult(output=f"there is no tool {call.name!r}; call `answer`", ok=False)
        work: Callable[[Any], Awaitable[ToolResult]]
        work = lambda workspace: toolbox.use(workspace, call.name, call.arguments)  # noqa: E731
        request = {"tool": call.name, "arguments": call.arguments}
        try:
            return await self._session.act("tool", request, work, ToolResult)
        except Undone as error:
            return ToolResult(str(error), ok=False)

    async def _help(self, helper: Helper, call: Call) -> ToolResult:
        try:
            asked = parsed(helper.name, helper.arguments, call.arguments)
        except Refused as refusal:
            return ToolResult(str(refusal), ok=False)
        self._helped += 1
        return await helper.help(asked, self._session.scope(f"{helper.name}-{self._helped}"))


def _schema(answer: type[Answer]) -> Schema:
    description = (answer.__doc__ or "").strip()
    parameters = answer.model_json_schema()
    return {
        "type": "function",
        "function": {"name": _ANSWER, "description": description, "parameters": parameters},
    }


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
