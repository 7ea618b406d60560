"""Rows of the tables `steps` and `llm_calls` as steps of ATIF, from any dialect of requests.

Work that no model asked for is a step without a model call.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from atif import (
    ContentPart,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
)
from pydantic import ValidationError

from flows.formats.steps import OBSERVATION, command_of, outside
from flows.storage.lake import Row

_ITEMS = frozenset({"function_call", "reasoning"})
"""Types of items of the Responses API that repeat what the model said."""

_FIGURES = {
    "cache_write_tokens": None,
    "reasoning_tokens": None,
    "finish_reason": None,
    "latency_s": None,
    "retries": 0,
    "role": "",
    "cost_source": "unknown",
}
"""Columns of a call that the format has no field for, with what they say if nothing is known."""

CUT_OFF = "cut_off"
"""Free field of the end of a step that has no result."""

_Place = tuple[str, int]
"""Scope and number of a step."""


def lines(
    rows: Iterable[Row], calls: Iterable[Row], model: str | None, copied: Collection[_Place]
) -> dict[str, list[Step]]:
    """Return the steps of ATIF by scope; each scope is referred to from the one around it.

    `model` is the usual one, which steps do not name. `copied` has the steps that a fork copied.
    """
    by_place = {(call["scope"], call["seq"]): call for call in calls}
    by_scope: dict[str, list[Row]] = {"": []}
    for row in rows:
        by_scope.setdefault(row["scope"], []).append(row)
    talks = {scope: _Talk(model) for scope in sorted(by_scope)}
    for scope, talk in talks.items():
        for row in sorted(by_scope[scope], key=lambda row: int(row["seq"])):
            place = (scope, row["seq"])
            talk.add(row, by_place.get(place), True if place in copied else None)
    _refer(talks, by_scope)
    return {
        scope: [step.model_copy(update={"step_id": n}) for n, (_, step) in enumerate(talk.steps, 1)]
        for scope, talk in talks.items()
    }


class _Talk:
    """The conversation of one scope so far."""

    def __init__(self, model: str | None) -> None:
        self.steps: list[tuple[datetime | None, Step]] = []
        """With their times. A message has the time of the step that follows it."""
        self._model = model
        self._heard: list[str] = []
        self._last: Step | None = None
        """The step that the next result may belong to."""

    def add(self, row: Row, call: Row | None, copied: bool | None) -> None:
        """Add a row."""
        request, result = json.loads(row["request"]), json.loads(row["result"])
        more: Row = {"is_copied_context": copied}
        if isinstance(result, dict) and result.keys() == {"cut_off"}:
            text = str(result["cut_off"])
            more["extra"] = {CUT_OFF: text}
            self._append(row, "system", message=f"Cut off: {text}", timestamp=_time(row), **more)
        elif row["kind"] == "model":
            self._hear(row, _messages(request), more)
            self._last = self._answer(row, call, result, more)
        else:
            self._work(row, *_use(row, request, result), more)

    def _append(self, row: Row, source: str, **fields: Any) -> Step:
        step = Step.model_validate({"step_id": 1, "source": source, **fields})
        self.steps.append((row["started_at"], step))
        return step

    def _answer(self, row: Row, call: Row | None, message: Mapping[str, Any], more: Row) -> Step:
        """Add a message of the model. Its name is left out if it is the usual one."""
        model = call["model"] if call else None
        return self._append(
            row,
            "agent",
            timestamp=_time(row),
            model_name=None if model == (self._model or "unknown") else model,
            **read_answer(message),
            metrics=_metrics(call) if call else None,
            llm_call_count=1 if call else None,
            **more,
        )

    def _hear(self, row: Row, messages: Sequence[Mapping[str, Any]], more: Row) -> None:
        """Add the messages of a request, without those of an earlier one that it repeats."""
        keys = [json.dumps(message, sort_keys=True) for message in messages]
        is_again = bool(keys) and bool(self._heard) and keys[0] == self._heard[0]
        known = set(self._heard) if is_again else set()
        self._heard += keys
        for key, message in zip(keys, messages, strict=True):
            if key in known:
                continue
            results, said = _heard(message)
            for result in results:
                self._learn(result)
            if said is not None:
                is_system = message.get("role") in ("system", "developer")
                source = "system" if is_system else "user"
                self._last = self._append(row, source, message=read_content(said), **more)

    def _learn(self, result: ObservationResult) -> None:
        """Add a result that a message tells, unless a step has it."""
        for _, step in reversed(self.steps):
            if any(call.tool_call_id == result.source_call_id for call in step.tool_calls or ()):
                if any(call.tool_call_id == result.source_call_id for call in find_waiting(step)):
                    observe(step, result)
                return

    def _work(
        self, row: Row, name: str, arguments: Row, result: ObservationResult, more: Row
    ) -> None:
        """Add work to the answer that asked for it, or on its own."""
        last = self._last
        waiting = find_waiting(last) if last else ()
        asked = next((each for each in waiting if _is_asked(row, name, arguments, each)), None)
        if asked:
            result.source_call_id = asked.tool_call_id
        if last is not None and (asked or (name == OBSERVATION and not arguments)):
            observe(last, result)
            return
        call = ToolCall(
            tool_call_id=f"work-{row['seq']}", function_name=name, arguments=dict(arguments)
        )
        result.source_call_id = call.tool_call_id
        step = self._append(
            row, "agent", timestamp=_time(row), message="", tool_calls=[call], llm_call_count=0,
            **more,
        )  # fmt: skip
        observe(step, result)


def observe(step: Step, result: ObservationResult) -> None:
    if step.observation is None:
        step.observation = Observation(results=[])
    step.observation.results.append(result)


def find_waiting(step: Step) -> Iterator[ToolCall]:
    """Yield the uses of tools without a result."""
    results = step.observation.results if step.observation else ()
    had = Counter(result.source_call_id for result in results)
    for call in step.tool_calls or ():
        if had[call.tool_call_id]:
            had[call.tool_call_id] -= 1
        else:
            yield call


def _is_asked(row: Row, name: str, arguments: Row, asked: ToolCall) -> bool:
    """Return True if work is what a model asked for."""
    if row["kind"] == "command":
        return command_of(asked.function_name, asked.arguments) == str(arguments["command"])
    return (name, arguments) == (asked.function_name, asked.arguments)


def _use(row: Row, request: Row, result: Any) -> tuple[str, Row, ObservationResult]:
    """Return name, arguments and result of a command, the use of a tool or an action."""
    names = ("exit_code", "duration_s", "timed_out")
    more = {name: row[name] for name in names if row.get(name) not in (None, False)}
    if row["started_at"]:
        more["started_at"] = _time(row)
    if row["kind"] == "command":
        output = result.get("output") if isinstance(result, dict) else result
        return "bash", {"command": request.get("command", "")}, _result(output, (), more)
    name, rest = str(request.get("action", row["kind"])), dict(request)
    rest.pop("action", None)
    if name == "tool" and rest.keys() == {"tool", "arguments"}:
        name, rest = str(rest["tool"]), rest["arguments"]
    elif rest.keys() == {"arguments"} and isinstance(rest["arguments"], dict):
        rest = rest["arguments"]
    subagents: Sequence[str] = ()
    if isinstance(result, dict) and result.keys() == {"content", "subagents"}:
        result, subagents = result["content"], result["subagents"]
    return name, rest, _result(result, subagents, more)


def _result(content: Any, subagents: Sequence[str], more: Row) -> ObservationResult:
    return ObservationResult(
        content=None if content is None else read_content(content),
        subagent_trajectory_ref=[_reference(scope) for scope in subagents] or None,
        extra=more or None,
    )


def _reference(scope: str) -> SubagentTrajectoryRef:
    return SubagentTrajectoryRef(trajectory_id=scope)


def read_answer(message: Mapping[str, Any]) -> Row:
    """Return the fields of a step that hold a message of a model."""
    return {
        "message": read_content(message.get("content")),
        "reasoning_content": _reasoning(message),
        "tool_calls": [_asked(each) for each in message.get("tool_calls") or ()] or None,
    }


def _asked(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    given = function.get("arguments")
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {} if given in (None, "") else {"arguments": given}
    return ToolCall(
        tool_call_id=str(call.get("id") or ""),
        function_name=str(function.get("name") or ""),
        arguments=arguments,
    )


def _metrics(call: Row) -> Metrics:
    more = {name: call[name] for name, nothing in _FIGURES.items() if call[name] != nothing}
    return Metrics(
        prompt_tokens=call["input_tokens"],
        completion_tokens=call["output_tokens"],
        cached_tokens=call["cache_read_tokens"],
        cost_usd=call["cost_usd"],
        extra=more or None,
    )


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


def _heard(message: Mapping[str, Any]) -> tuple[list[ObservationResult], Any]:
    """Return what a message tells the model: results of tools, and a content or None."""
    role, kind, content = message.get("role"), message.get("type"), message.get("content")
    if role == "assistant" or kind in _ITEMS:
        return [], None
    if role == "tool" or kind == "function_call_output":
        output = message.get("output") if content is None else content
        return [_told(message.get("tool_call_id") or message.get("call_id"), output)], None
    if not isinstance(content, list):
        return [], "" if content is None else content
    results = [part for part in content if _is_result(part)]
    rest = [part for part in content if not _is_result(part)]
    told = [_told(part.get("tool_use_id"), part.get("content")) for part in results]
    return told, rest if rest or not results else None


def _told(call_id: Any, content: Any) -> ObservationResult:
    return ObservationResult(source_call_id=str(call_id or ""), content=plain(content))


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def read_content(content: Any) -> str | list[ContentPart]:
    """Return text, or parts if they are of the kinds that the format has."""
    if isinstance(content, list) and content:
        try:
            return [ContentPart.model_validate(part) for part in content]
        except ValidationError:
            pass
    return plain(content)


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


def _time(row: Row) -> str | None:
    return row["started_at"].isoformat() if row["started_at"] else None


def _refer(talks: Mapping[str, _Talk], rows: Mapping[str, Sequence[Row]]) -> None:
    """Refer to each scope from the scope that it is in, at the time when it began."""
    named = {
        ref.trajectory_id
        for talk in talks.values()
        for _, step in talk.steps
        for result in (step.observation.results if step.observation else ())
        for ref in result.subagent_trajectory_ref or ()
    }
    for scope in sorted(talks.keys() - named - {""}):
        at = min((row["started_at"] for row in rows[scope] if row["started_at"]), default=None)
        steps = talks[outside(scope, talks)].steps
        later = [n for n, (other, _) in enumerate(steps) if at and other and other > at]
        step = Step(
            step_id=1,
            timestamp=at.isoformat() if at else None,
            source="agent",
            message="",
            observation=Observation(results=[_result(None, [scope], {})]),
            llm_call_count=0,
        )
        steps.insert(later[0] if later else len(steps), (at, step))
