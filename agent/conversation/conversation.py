"""One role's conversation: tool use until it answers, within rounds and the context window."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from agent.conversation.exchanges import Answer, ConversationLimits, Exchange, Helper, ToolUse
from agent.conversation.offering import Offer
from agent.conversation.person import Decision, Person, decision, join_texts
from agent.conversation.protocols import (
    Call,
    NativeTools,
    TextTools,
    Turn,
    text_of,
)
from agent.conversation.text_calls import objects_in
from agent.conversation.transcript import Transcript, as_markdown
from agent.errors import ContextWindowExceeded
from agent.journal import InboxMessage
from agent.models.protocol import UNKNOWN_WINDOW, ModelReply, ModelRequest
from agent.session.session import Session
from agent.tools import Toolbox, ToolResult
from agent.tools.rendering import render
from agent.tools.tool import json_schema
from agent.types import End

A = TypeVar("A", bound=Answer)

MALFORMED_IN_A_ROW = 3
"""Malformed replies in a row after which a conversation is given up."""

REPEATS_IN_A_ROW = 4
"""Repetitions of a call with the same result after which a conversation is given up."""

_TOLD_OF_A_PROBLEM = 1_000
"""Maximum length of a description of a problem, in characters."""

_ANSWER = "answer"

_NOT_TAKEN = (
    "The answer was not taken, because another call of the same reply failed. Answer again when "
    "that is settled."
)

_OTHERWISE = "Repeating it changes nothing: use other arguments, another tool, or another approach."


_FOR_SOME = re.compile(r"<(graders|reviewers)>(.*?)</\1>", re.DOTALL)


def prompt_beside(module: str, name: str = "", *, for_reviewers: bool = False) -> str:
    """Return the prompt in the folder of a module: `<module>.md`, or `<name>.md`.

    Of its parts in `<graders>` and `<reviewers>`, it has those for the task's judges.
    """
    path = Path(module)
    text = (path.with_name(f"{name}.md") if name else path.with_suffix(".md")).read_text("utf-8")
    judges = "reviewers" if for_reviewers else "graders"
    return _FOR_SOME.sub(lambda part: part[2] if part[1] == judges else "", text)


class Conversation(Generic[A]):
    """A role's conversation, which can continue after an answer."""

    def __init__(
        self,
        session: Session,
        role: str,
        prompt: str,
        facts: Mapping[str, Any],
        answer: type[A],
        limits: ConversationLimits,
        toolbox: Toolbox | None = None,
        helpers: Sequence[Helper] = (),
        on_use: Callable[[ToolUse], None] = lambda use: None,
        person: Person | None = None,
    ) -> None:
        """Open the conversation of a role. `session` is a separate scope.

        `facts` is the role's whole input. `on_use` receives each use of a tool, for callers that
        need it before the end, or when time runs out. Messages of a `person` are read before each
        call. In a chat with the person, a reply without a tool call is the answer.
        """
        self._is_native = session.model(role).info.native_tools
        self._session = session
        self._role = role
        self._answer = answer
        self._offer = Offer(session, toolbox, helpers)
        self._facts = facts
        self._limits = limits
        self._left = limits.rounds
        self._uses: list[ToolUse] = []
        self._on_use = on_use
        self._person = person
        self._is_chat = person is not None and person.is_chat
        self._calls = 0
        self._repeats = 0
        self._last: list[Any] = []
        """The calls of the last reply with their results, which `_repeats` counts."""
        self._unanswered: list[tuple[Call, str]] = []
        """The calls of the reply that answered, with the results of the other calls."""
        self._schemas = self._offer.schemas()
        self._tools = [schema["function"]["name"] for schema in self._schemas]
        if not self._is_chat:
            function = {
                "name": _ANSWER,
                "description": (answer.__doc__ or "").strip(),
                "parameters": json_schema(answer),
            }
            self._schemas.append({"type": "function", "function": function})
        kind = NativeTools if self._is_native else TextTools
        self._protocol = kind(self._schemas, is_chat=self._is_chat)
        self._transcript = Transcript(
            [
                _find_system(session)
                or {"role": "system", "content": f"{prompt}\n\n{self._protocol.instructions}"},
                {"role": "user", "content": as_markdown(facts)},
            ]
        )
        self._ids: set[str] = set()

    async def until_answer(self) -> Exchange[A]:
        """Let the role use its tools until it answers, or its rounds or its window are used up.

        When they are nearly used up, only an answer is accepted.

        Raises:
            BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
        """
        talk = self._transcript
        if not self._calls:
            window = self._limits.context_tokens or await self._session.find_window(self._role)
            talk.window = window or UNKNOWN_WINDOW
        malformed = 0
        while self._left > 0:
            self._calls += 1
            if self._person is not None and (news := await self._person.news(self._calls)):
                talk.hear(_news(news, is_chat=self._is_chat))
            self._left -= 1
            talk.make_room()
            if talk.is_full:
                return self._end("context_full")
            is_last = self._left == 0 < self._limits.rounds - 1
            only_answer = talk.is_nearly_full or is_last
            request = self._request(only_answer=only_answer)
            meter = self._limits.meter
            try:
                async with meter.call(self._session) if meter is not None else nullcontext():
                    reply = await self._session.call(request)
            except ContextWindowExceeded:
                if not talk.shorten_after_overflow():
                    return self._end("context_full")
                continue
            talk.record_sent_tokens(request, reply)
            turn = self._read(reply)
            answer = await self._carry_out(turn, only_answer=only_answer)
            if answer is not None and not await self._goes_on():
                return self._end("answered", answer)
            if answer is None and only_answer and self._left > 0:
                return self._end("context_full")
            malformed = malformed + 1 if turn.is_malformed else 0
            if malformed == MALFORMED_IN_A_ROW:
                return self._end("malformed")
            if self._repeats == REPEATS_IN_A_ROW:
                return self._end("repeated")
        return self._end("out_of_rounds")

    async def _goes_on(self) -> bool:
        """Return True if people wrote before the answer, which then is not the last one."""
        if self._person is None or self._is_chat or self._left == 0:
            return False
        news = await self._person.late_news(self._calls)
        if news:
            self.tell(_news(news, is_chat=False))
        return bool(news)

    def tell(self, text: str) -> None:
        """Respond to the answer, so that the conversation continues with `until_answer`."""
        outputs = [(call, output or text) for call, output in self._unanswered]
        self._unanswered = []
        self._repeats, self._last = 0, []
        is_text = self._is_native and [call.id for call, _ in outputs] == [""]
        if self._is_chat or not outputs or is_text:
            self._transcript.say(text)
        else:
            self._transcript.add_results(self._protocol.results(outputs))

    async def hear(self, about: str) -> list[InboxMessage]:
        """Wait for the next messages of the person of a chat, and start a turn with them.

        `about` is the answer so far. Return the messages. One that ends the chat starts no turn.

        Raises:
            Waiting, Interrupted: as in `Person.answer`.
        """
        assert self._person is not None, "a chat has one"
        messages = await self._person.answer(self._calls, "message", about)
        if text := join_texts([message for message in messages if message.kind == "say"]):
            self._begin_turn(text)
        return messages

    async def wait_for_decision(self, about: str) -> Decision:
        """Wait for a decision about a result, and start a turn if it has to be revised.

        Raises:
            Dismissed: a person ended the attempt.
            Waiting, Interrupted: as in `Person.answer`.
        """
        assert self._person is not None, "only a person approves"
        result = decision(await self._person.answer(self._calls, "approval", about))
        if result.kind == "revise":
            text = f"{result.sender} does not approve it yet, and says:\n\n{result.text}"
            self._begin_turn(text)
        return result

    def _begin_turn(self, text: str) -> None:
        self.tell(text)
        self._left = self._limits.rounds

    def _end(self, end: End, answer: A | None = None) -> Exchange[A]:
        return Exchange(answer, end, tuple(self._uses))

    def _request(self, *, only_answer: bool) -> ModelRequest:
        if only_answer:
            self._transcript.say("This is the last reply: answer now, with what you have.")
        return ModelRequest(
            list(self._transcript.messages),
            self._protocol.offer,
            role=self._role,
            facts=self._facts,
            only=_ANSWER if not self._is_chat and (only_answer or not self._tools) else "",
            goes_on=self._is_chat or bool(self._tools),
        )

    def _read(self, reply: ModelReply) -> Turn:
        """Return the calls of a reply, and append the part that the next request repeats."""
        if self._is_chat and self._protocol.is_speech(reply):
            self._transcript.take(reply.message, reply)
            return Turn([Call("", _ANSWER, {"text": text_of(reply.message)})], reply.message)
        turn = self._protocol.read(reply, self._ids)
        if not turn.calls:
            for content in objects_in(text_of(reply.message)):  # an answer or a call of `answer`
                for arguments in (content, content.get("arguments")):
                    if isinstance(arguments, dict) and not isinstance(
                        self._answer_of(arguments), str
                    ):
                        return Turn([Call("", _ANSWER, arguments)], reply.message)
        self._ids.update(call.id for call in turn.calls)
        if turn.message is not None:
            self._transcript.take(turn.message, reply)
        calls = []
        for call in turn.calls:
            if call.name == _ANSWER and not call.problem:
                answer = self._answer_of(call.arguments)
                call = replace(call, problem=answer) if isinstance(answer, str) else call
            calls.append(call)
        return replace(turn, calls=calls)

    def _answer_of(self, arguments: dict[str, Any]) -> A | str:
        """Return the role's answer, or the reason why it does not fit, as text.

        Unknown fields are left out: to ask again for them would cost a call.
        """
        try:
            return self._answer.model_validate(arguments, extra="ignore")
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)[:5]
            lines = (
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems
            )
            return f"the answer does not fit: {'; '.join(lines)}"

    async def _carry_out(self, turn: Turn, *, only_answer: bool) -> A | None:
        """Use the requested tools in order, then take the answer. Return it, or None.

        Without an answer, the results are added to the messages.
        """
        if not turn.calls:
            text = self._problem(turn.problem)
            if self._is_chat:
                text += " Say something to the person, or call a tool."
            elif not only_answer:
                tools = f"Call one of {', '.join(self._tools)}, or " if self._tools else "Call "
                text += f" {tools}`answer` when you are finished."
            self._transcript.say(text)
            return None
        answers = [call for call in turn.calls if call.name == _ANSWER and not call.problem]
        texts = self._get_texts(turn.calls, is_closed=only_answer and not answers)
        results = await self._use([call for call, text in texts if text is None])
        is_settled = all(result.ok for result in results) and not any(
            call.problem for call in turn.calls if call.name != _ANSWER
        )
        room = self._transcript.result_chars
        rendered = iter(render(result, room) for result in results)
        outputs = [(call, next(rendered) if text is None else text) for call, text in texts]
        if answers and (is_settled or only_answer):
            self._unanswered = [
                (call, "" if call.name == _ANSWER else output) for call, output in outputs
            ]
            answer = self._answer_of(answers[-1].arguments)
            return None if isinstance(answer, str) else answer
        self._transcript.add_results(self._protocol.results(self._with_repeats(outputs)))
        return None

    def _with_repeats(self, outputs: list[tuple[Call, str]]) -> list[tuple[Call, str]]:
        """Return results of calls, with a remark if the last reply had the same ones."""
        used = [(call.name, call.arguments, text) for call, text in outputs]
        self._repeats = self._repeats + 1 if used == self._last else 0
        self._last = used
        if not self._repeats:
            return outputs
        remark = (
            f"The same call had the same result {self._repeats + 1} times in a row. {_OTHERWISE}"
        )
        call, text = outputs[-1]
        return [*outputs[:-1], (call, f"{text}\n\n{remark}")]

    def _get_texts(
        self, calls: Sequence[Call], *, is_closed: bool
    ) -> list[tuple[Call, str | None]]:
        """Return the text for each call, or None if it has to be run."""
        most = self._limits.tool_uses
        remaining = len(calls) if most is None else most - len(self._uses)
        texts: list[tuple[Call, str | None]] = []
        for call in calls:
            text: str | None = None
            if call.name == _ANSWER:
                text = self._problem(call.problem) if call.problem else _NOT_TAKEN
            elif call.problem:
                text = self._problem(call.problem)
            elif is_closed:
                text = "Not used: only an answer is accepted now."
            elif remaining <= 0:
                text = "No tool uses are left in this turn; answer now."
            else:
                remaining -= 1
            texts.append((call, text))
        return texts

    async def _use(self, calls: Sequence[Call]) -> list[ToolResult]:
        """Run calls, and return their results in the requested order."""
        done = await self._offer.use(calls)
        for call, result in zip(calls, done.results, strict=True):
            if result is not None:
                self._uses.append(use := ToolUse(call.name, call.arguments, result))
                self._on_use(use)
        if done.error is not None:
            raise done.error
        return [result for result in done.results if result is not None]

    def _problem(self, problem: str) -> str:
        return f"{problem[:_TOLD_OF_A_PROBLEM]}. Please try again."


def _find_system(session: Session) -> dict[str, Any] | None:
    """Return the system message of a conversation from an earlier run, or None.

    It continues under its own prompt, whatever the prompt of this release is. A fork does not.
    """
    calls = (step for step in session.recorded if step.kind == "model" and not step.copied)
    first = next(calls, None)
    messages = json.loads(first.request)["messages"] if first else []
    return messages[0] if messages and messages[0]["role"] == "system" else None


def _news(messages: Sequence[InboxMessage], *, is_chat: bool) -> str:
    """Return messages that came during the work."""
    if is_chat:
        return join_texts(messages)
    return f"A person who watches the work says:\n\n{join_texts(messages)}"
