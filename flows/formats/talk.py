"""The steps of an attempt as turns of conversations, in any dialect that they were recorded in."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from flows.formats.shells import command_of
from flows.storage.lake import Row

OBSERVATION = "observation"
"""Name of a result of an imported step that called no tool by name."""

_ITEMS = frozenset({"function_call", "reasoning"})
"""Types of items of the Responses API that repeat what the model said."""


@dataclass
class Done:
    """The result of a tool, or of work that no model asked for."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any]
    content: Any
    """Text or JSON."""
    row: Row | None = None
    """The step; None if only the next request to the model tells the result."""
    subagents: Sequence[str] = ()
    """The scopes that did the work."""


@dataclass
class Told:
    """A message to the model."""

    role: Literal["system", "user"]
    content: Any
    """Text, or a list of parts."""
    done: list[Done] = field(default_factory=list)


@dataclass(frozen=True)
class RecordedToolUse:
    """A use of a tool that a model asked for."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass
class Replied:
    """A message of the model."""

    row: Row
    call: Row | None
    """The row of `llm_calls`; None if the call is recorded elsewhere."""
    content: Any
    reasoning: str | None
    asked: Sequence[RecordedToolUse]
    done: list[Done] = field(default_factory=list)

    def waiting(self) -> Iterator[RecordedToolUse]:
        """Yield the uses without a result."""
        had = Counter(each.call_id for each in self.done)
        for each in self.asked:
            if had[each.id]:
                had[each.id] -= 1
            else:
                yield each


@dataclass(frozen=True)
class Cut:
    """The end of a step that has no result."""

    row: Row
    text: str


Turn = Told | Replied | Done | Cut


def moment(turn: Turn) -> datetime | None:
    """Return when a turn began; None if that is unknown."""
    row = None if isinstance(turn, Told) else turn.row
    return row["started_at"] if row else None


def outside(scope: str, scopes: Iterable[str]) -> str:
    """Return the innermost of the scopes that contain a scope."""
    return max((one for one in scopes if scope.startswith(f"{one}/")), key=len, default="")


def turns(rows: Iterable[Row], calls: Mapping[tuple[str, int], Row]) -> list[Turn]:
    """Return the turns of one scope. `calls` has the rows of `llm_calls` by scope and number."""
    talk = _Talk()
    for row in sorted(rows, key=lambda row: int(row["seq"])):
        talk.add(row, calls.get((row["scope"], row["seq"])))
    return talk.turns


class _Talk:
    """The conversation of one scope so far."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._told: list[str] = []
        self._last: Replied | Told | None = None
        """The turn that the next result may belong to."""

    def add(self, row: Row, call: Row | None) -> None:
        """Add a step."""
        request, result = json.loads(row["request"]), json.loads(row["result"])
        if isinstance(result, dict) and result.keys() == {"cut_off"}:
            self.turns.append(Cut(row, str(result["cut_off"])))
        elif row["kind"] == "model":
            self._hear(_messages(request))
            answer = _answer(row, call, result)
            self.turns.append(answer)
            self._last = answer
        else:
            self._work(_done(row, request, result))

    def _hear(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add the messages of a request, without those of an earlier one that it repeats."""
        keys = [json.dumps(message, sort_keys=True) for message in messages]
        is_again = bool(keys) and bool(self._told) and keys[0] == self._told[0]
        known = set(self._told) if is_again else set()
        self._told += keys
        for key, message in zip(keys, messages, strict=True):
            if key in known:
                continue
            for each in _heard(message):
                if isinstance(each, Told):
                    self.turns.append(each)
                    self._last = each
                else:
                    self._learn(each)

    def _learn(self, told: Done) -> None:
        """Add a result that a message tells, unless a step has it."""
        for answer in (turn for turn in reversed(self.turns) if isinstance(turn, Replied)):
            for asked in answer.asked:
                if asked.id == told.call_id:
                    if asked in answer.waiting():
                        done = Done(asked.id, asked.name, asked.arguments, told.content)
                        answer.done.append(done)
                    return

    def _work(self, done: Done) -> None:
        """Add work to the answer that asked for it, or on its own."""
        last = self._last
        if isinstance(last, Replied):
            asked = next((each for each in last.waiting() if _is_asked(done, each)), None)
            if asked:
                done.call_id, done.name, done.arguments = asked.id, asked.name, asked.arguments
        is_observed = done.name == OBSERVATION and not done.arguments
        if last is not None and (done.call_id is not None or is_observed):
            last.done.append(done)
        else:
            self.turns.append(done)


def _is_asked(done: Done, asked: RecordedToolUse) -> bool:
    """Return True if work is what a model asked for."""
    if done.row and done.row["kind"] == "command":
        return command_of(asked.name, asked.arguments) == str(done.arguments["command"])
    return (done.name, done.arguments) == (asked.name, asked.arguments)


def _done(row: Row, request: Mapping[str, Any], result: Any) -> Done:
    """Return work in the workspace, which is a command, the use of a tool or an action."""
    if row["kind"] == "command":
        output = result.get("output") if isinstance(result, dict) else result
        return Done(None, "bash", {"command": request.get("command", "")}, output, row)
    name, rest = str(request.get("action", row["kind"])), dict(request)
    rest.pop("action", None)
    if name == "tool" and rest.keys() == {"tool", "arguments"}:
        name, rest = str(rest["tool"]), rest["arguments"]
    elif rest.keys() == {"arguments"} and isinstance(rest["arguments"], dict):
        rest = rest["arguments"]
    done = Done(None, name, rest, result, row)
    if isinstance(result, dict) and result.keys() == {"content", "subagents"}:
        done.content, done.subagents = result["content"], result["subagents"]
    return done


def _answer(row: Row, call: Row | None, message: Mapping[str, Any]) -> Replied:
    asked = [_asked(each) for each in message.get("tool_calls") or ()]
    return Replied(row, call, message.get("content"), _reasoning(message), asked)


def _asked(call: Mapping[str, Any]) -> RecordedToolUse:
    function = call.get("function") or {}
    given = function.get("arguments")
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {} if given in (None, "") else {"arguments": given}
    return RecordedToolUse(str(call.get("id") or ""), str(function.get("name") or ""), arguments)


def _reasoning(message: Mapping[str, Any]) -> str | None:
    if isinstance(text := message.get("reasoning_content"), str):
        return text
    blocks = message.get("thinking_blocks") or ()
    return "\n\n".join(filter(None, (str(block.get("thinking") or "") for block in blocks))) or None


def _messages(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a request, with the instructions that some dialects keep apart."""
    fields = request.get("fields") or {}
    apart = fields.get("system") or fields.get("instructions")
    return [
        *([{"role": "system", "content": apart}] if apart else []),
        *(request.get("messages") or ()),
    ]


def _heard(message: Mapping[str, Any]) -> Iterator[Told | Done]:
    """Yield what a message tells the model: results of tools, and text."""
    role, kind, content = message.get("role"), message.get("type"), message.get("content")
    if role == "assistant" or kind in _ITEMS:
        return
    if role == "tool" or kind == "function_call_output":
        call_id = message.get("tool_call_id") or message.get("call_id")
        output = message.get("output") if content is None else content
        yield Done(str(call_id or ""), "", {}, plain(output))
        return
    rest = content
    if isinstance(content, list):
        results = [part for part in content if _is_result(part)]
        rest = [part for part in content if not _is_result(part)]
        for part in results:
            yield Done(str(part.get("tool_use_id") or ""), "", {}, plain(part.get("content")))
        if not rest:
            return
    yield Told("system" if role in ("system", "developer") else "user", rest)


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def plain(content: Any) -> str:
    """Return a content as text: the texts of its parts, and any other JSON as it is."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    return json.dumps(content, ensure_ascii=False)
