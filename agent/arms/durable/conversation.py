"""One role's conversation: tool use until it answers, within rounds and the context window."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from agent.arms.durable.answers import Answer
from agent.arms.durable.exchanges import End, Exchange, Helper, Limits, ToolUse
from agent.arms.durable.facts import as_markdown
from agent.arms.durable.profile import Role
from agent.arms.durable.protocols import (
    Call,
    NativeTools,
    Schema,
    TextTools,
    ToolProtocol,
    Turn,
    objects_in,
    text_of,
)
from agent.errors import ContextWindowExceeded, Undone
from agent.models.chat import CHARS_PER_TOKEN, tokens
from agent.models.protocol import Message, ModelReply, ModelRequest
from agent.session.session import Session
from agent.tools import Toolbox, ToolResult
from agent.tools.rendering import head_and_tail, render
from agent.tools.tool import Refused, parsed, schema

A = TypeVar("A", bound=Answer)

MALFORMED_IN_A_ROW = 3
"""Malformed replies in a row after which a conversation is given up."""

COMPACT_SHARE, WRAP_UP_SHARE, SPILL_SHARE = 0.65, 0.80, 0.95
"""Shares of the context window.

Above the first, older tool results are shortened. Above the second, only an answer is accepted.
Above the third, no call is made.
"""

RECENT_RESULTS = 4
"""Tool results that are not shortened before the window is nearly full."""

SHORTENED = 600
"""Maximum length of a shortened tool result, in characters."""

UNKNOWN_WINDOW = 128_000
"""Context window of a model of which none is known, in tokens."""

_TOLD_OF_A_PROBLEM = 1_000
"""Maximum length of a description of a problem, in characters."""

_ANSWER = "answer"

_NOT_TAKEN = (
    "The answer was not taken, because another call of the same reply failed. Answer again when "
    "that is settled."
)


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
        BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
    """
    talk = Conversation(session, role, prompt, facts, answer, limits, toolbox, helpers, uses)
    return await talk.until_answer()


async def _window(session: Session, role: Role, limits: Limits) -> int:
    """Return the context window of a conversation."""
    if limits.context_tokens is not None:
        return limits.context_tokens
    # In a thread: the first call may have to load a price list.
    own = await asyncio.to_thread(session.model(role).info.context_tokens)
    return own or UNKNOWN_WINDOW


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
        self._is_native = session.model(role).info.native_tools
        self._protocol: ToolProtocol = NativeTools() if self._is_native else TextTools()
        self._session = session
        self._role = role
        self._answer = answer
        self._toolbox = toolbox
        self._helpers = {helper.name: helper for helper in helpers}
        self._helped = 0
        self._facts = facts
        self._limits = limits
        self._left = limits.rounds
        self._uses = [] if uses is None else uses
        self._window = UNKNOWN_WINDOW
        self._unanswered: list[tuple[Call, str]] = []
        """The calls of the reply that answered, with the results of those beside the answer."""
        helping = [schema(helper.name, helper.arguments) for helper in helpers]
        self._schemas = [*(toolbox.schemas() if toolbox else []), *helping, _schema(answer)]
        self._tools = [one["function"]["name"] for one in self._schemas[:-1]]
        told = f"{prompt}\n\n{self._protocol.instructions(self._schemas)}"
        self._messages: list[Message] = [
            {"role": "system", "content": told},
            {"role": "user", "content": as_markdown(facts)},
        ]
        self._results: list[int] = []
        """Positions of the messages with tool results."""
        self._ids: set[str] = set()
        self._counted, self._known_tokens = 0, 0

    async def until_answer(self) -> Exchange[A]:
        """Let the role use its tools until it answers, or its rounds or its window are used up.

        When they are nearly used up, only an answer is accepted.

        Raises:
            BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
        """
        self._window = await _window(self._session, self._role, self._limits)
        malformed, is_too_long = 0, False
        while self._left > 0:
            if self._limits.meter is not None:
                self._limits.meter.check()
            self._left -= 1
            self._make_room()
            if self._is_full:
                return self._ended("context_full")
            is_last = self._left == 0 < self._limits.rounds - 1
            only_answer = is_too_long or self._is_nearly_full or is_last
            try:
                reply = await self._next_reply(only_answer=only_answer)
            except ContextWindowExceeded:
                if not self._shorten_all():
                    return self._ended("context_full")
                is_too_long = True
                continue
            turn = self._read(reply)
            given = await self._carry_out(turn, only_answer=only_answer)
            if given is not None:
                return self._ended("answered", given)
            if only_answer and self._left > 0:
                return self._ended("context_full")
            malformed = malformed + 1 if turn.is_malformed else 0
            if malformed == MALFORMED_IN_A_ROW:
                return self._ended("malformed")
        return self._ended("out_of_rounds")

    def tell(self, text: str) -> None:
        """Respond to the answer, so that the conversation continues with `until_answer`."""
        outputs = [(call, output or text) for call, output in self._unanswered]
        self._unanswered = []
        if any(call.id or not self._is_native for call, _ in outputs):
            self._add(outputs)
        else:
            self._say(text)

    def _ended(self, end: End, answer: A | None = None) -> Exchange[A]:
        return Exchange(answer, end, tuple(self._uses))

    @property
    def _is_nearly_full(self) -> bool:
        return self._tokens > WRAP_UP_SHARE * self._window

    @property
    def _is_full(self) -> bool:
        return self._tokens > SPILL_SHARE * self._window

    @property
    def _tokens(self) -> int:
        """Size of the conversation: the provider's token count, plus an estimate of the rest."""
        return self._known_tokens + tokens(self._messages[self._counted :])

    def _make_room(self) -> None:
        """Shorten older tool results before the window is nearly full, then all of them.

        This changes the prefix of the conversation, which the provider's cache then lacks. So
        everything that may be shortened is shortened at once.
        """
        if self._tokens > COMPACT_SHARE * self._window:
            self._shorten(self._results[:-RECENT_RESULTS])
        if self._is_full:
            self._shorten_all()

    def _shorten_all(self) -> bool:
        """Shorten all tool results. Return False if none could be."""
        return self._shorten(self._results)

    def _shorten(self, places: Sequence[int]) -> bool:
        is_shorter = False
        for place in places:
            whole = self._messages[place]["content"]
            if len(whole) <= SHORTENED:
                continue
            short = head_and_tail(whole, SHORTENED)
            self._messages[place] = {**self._messages[place], "content": short}
            is_shorter = True
            if place < self._counted:
                self._known_tokens -= (len(whole) - len(short)) // CHARS_PER_TOKEN
        return is_shorter

    async def _next_reply(self, *, only_answer: bool) -> ModelReply:
        if only_answer:
            self._say("This is the last reply: answer now, with what you have.")
        request = ModelRequest(
            list(self._messages),
            self._protocol.offered(self._schemas),
            role=self._role,
            facts=self._facts,
            only=_ANSWER if only_answer or not self._tools else "",
            goes_on=bool(self._tools),
        )
        reply = await self._session.call(request)
        self._known_tokens, self._counted = reply.usage.input_tokens, len(self._messages)
        return reply

    def _read(self, reply: ModelReply) -> Turn:
        """Return the calls of a reply, and append what the next request repeats of it."""
        turn = self._protocol.read(reply, self._ids)
        if not turn.calls:
            for found in objects_in(text_of(reply)):
                if answer := self._answer_as_text(found):
                    return Turn([answer], reply.message)
        self._ids.update(call.id for call in turn.calls)
        if turn.message is not None:
            self._messages.append(turn.message)
            if turn.message == reply.message:
                self._known_tokens += reply.usage.output_tokens
                self._counted = len(self._messages)
        return replace(turn, calls=[self._checked(call) for call in turn.calls])

    def _checked(self, call: Call) -> Call:
        """Return the call, with a problem if it is an answer that does not fit."""
        if call.name != _ANSWER or call.problem:
            return call
        answer = self._answer_of(call.arguments)
        return replace(call, problem=answer) if isinstance(answer, str) else call

    def _answer_as_text(self, found: dict[str, Any]) -> Call | None:
        """Return the call that an answer in JSON stands for, or None if it is no valid answer."""
        wrapped = found.get("arguments")
        for arguments in (found, wrapped if isinstance(wrapped, dict) else None):
            if arguments is not None and not isinstance(self._answer_of(arguments), str):
                return Call("", _ANSWER, arguments)
        return None

    def _answer_in(self, call: Call) -> A | None:
        answer = self._answer_of(call.arguments)
        return None if isinstance(answer, str) else answer

    def _answer_of(self, arguments: dict[str, Any]) -> A | str:
        """Return the role's answer, or the reason why it does not fit, as text.

        Unknown fields are left out: to ask again for them would cost a call.
        """
        try:
            return self._answer.model_validate(arguments, extra="ignore")
        except ValidationError as error:
            return f"the answer does not fit: {_problems(error)}"

    async def _carry_out(self, turn: Turn, *, only_answer: bool) -> A | None:
        """Use the requested tools in order, then take the answer. Return it, or None.

        Without an answer, the results are added to the messages.
        """
        most = self._limits.tool_uses
        left = None if most is None else most - len(self._uses)
        if not turn.calls:
            self._complain(turn.problem, only_answer=only_answer)
            return None
        outputs: list[tuple[Call, str]] = []
        answers = [call for call in turn.calls if call.name == _ANSWER and not call.problem]
        is_settled = True
        for call in turn.calls:
            if call.name == _ANSWER:
                output = self._problem(call.problem) if call.problem else _NOT_TAKEN
            elif call.problem:
                output, is_settled = self._problem(call.problem), False
            elif only_answer and not answers:
                output = "Not used: only an answer is accepted now."
            elif left is not None and left <= 0:
                output = "No tool uses are left in this turn; answer now."
            else:
                left = None if left is None else left - 1
                result = await self._used(call)
                self._uses.append(ToolUse(call.name, call.arguments, result))
                output, is_settled = render(result), is_settled and result.ok
            outputs.append((call, output))
        if answers and (is_settled or only_answer):
            self._unanswered = [
                (call, "" if call.name == _ANSWER else output) for call, output in outputs
            ]
            return self._answer_in(answers[-1])
        self._add(outputs)
        return None

    def _add(self, outputs: list[tuple[Call, str]]) -> None:
        results = self._protocol.results(outputs)
        self._results += range(len(self._messages), len(self._messages) + len(results))
        self._messages += results

    def _complain(self, problem: str, *, only_answer: bool) -> None:
        told = self._problem(problem)
        if not only_answer:
            tools = f"Call one of {', '.join(self._tools)}, or " if self._tools else "Call "
            told += f" {tools}`answer` when you are finished."
        self._say(told)

    def _problem(self, problem: str) -> str:
        return f"{problem[:_TOLD_OF_A_PROBLEM]}. Please try again."

    def _say(self, text: str) -> None:
        """Add a message of the user. Some models refuse two of them in a row."""
        last = self._messages[-1]
        if last["role"] == "user":
            self._messages[-1] = {**last, "content": f"{last['content']}\n\n{text}"}
            self._counted = min(self._counted, len(self._messages) - 1)
        else:
            self._messages.append({"role": "user", "content": text})

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
            return await self._session.act(
                "tool", request, work, ToolResult, depends_on=toolbox.depends_on
            )
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
