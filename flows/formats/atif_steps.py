"""Steps of ATIF from rows of the tables `steps` and `llm_calls`, in any dialect of requests.

Work that the model did not request is a step without a model call.
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

from flows.formats.step_rows import OBSERVATION, command_of, outside
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
"""Columns of a call without a field in the format, with their values if nothing is known."""

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
        self._past_messages: list[str] = []
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
            self._add_messages(row, request, more)
            self._last = self._add_answer(row, call, result, more)
        else:
            self._add_work(row, *_read_work(row, request, result), more)

    def _append(self, row: Row, source: str, **fields: Any) -> Step:
        step = Step.model_validate({"step_id": 1, "source": source, **fields})
        self.steps.append((row["started_at"], step))
        return step

    def _add_answer(
        self, row: Row, call: Row | None, message: Mapping[str, Any], more: Row
    ) -> Step:
        """Add a message of the model. Its name is left out if it is the usual one."""
        model, metrics = None, None
        if call:
            extra = {
                name: call[name] for name, default in _FIGURES.items() if call[name] != default
            }
            model = call["model"]
            metrics = Metrics(
                prompt_tokens=call["input_tokens"],
                completion_tokens=call["output_tokens"],
                cached_tokens=call["cache_read_tokens"],
                cost_usd=call["cost_usd"],
                extra=extra or None,
            )
        return self._append(
            row,
            "agent",
            timestamp=_time(row),
            model_name=None if model == (self._model or "unknown") else model,
            **read_answer(message),
            metrics=metrics,
            llm_call_count=1 if call else None,
            **more,
        )

    def _add_messages(self, row: Row, request: Mapping[str, Any], more: Row) -> None:
        """Add the messages of a request, without the messages repeated from an earlier one."""
        fields = request.get("fields") or {}
        # Some dialects keep the instructions apart.
        instructions = fields.get("system") or fields.get("instructions")
        if google := fields.get("systemInstruction") or fields.get("system_instruction"):
            instructions = google.get("parts")
        messages = [
            *([{"role": "system", "content": instructions}] if instructions else []),
            *(request.get("messages") or ()),
        ]
        keys = [json.dumps(message, sort_keys=True) for message in messages]
        is_repeated = bool(keys) and keys[:1] == self._past_messages[:1]
        repeated = set(self._past_messages) if is_repeated else set()
        self._past_messages += keys
        for key, message in zip(keys, messages, strict=True):
            if key in repeated:
                continue
            results, content = _read_message(message)
            for result in results:
                self._add_result(result)
            if content is not None:
                is_system = message.get("role") in ("system", "developer")
                source = "system" if is_system else "user"
                self._last = self._append(row, source, message=read_content(content), **more)

    def _add_result(self, result: ObservationResult) -> None:
        """Add a result from a message, unless a step has it."""
        for _, step in reversed(self.steps):
            if any(call.tool_call_id == result.source_call_id for call in step.tool_calls or ()):
                if any(call.tool_call_id == result.source_call_id for call in find_waiting(step)):
                    observe(step, result)
                return

    def _add_work(
        self, row: Row, name: str, arguments: Row, result: ObservationResult, more: Row
    ) -> None:
        """Add work to the answer that requested it, or as a separate step."""
        last = self._last
        for call in find_waiting(last) if last else ():
            is_requested = (name, arguments) == (call.function_name, call.arguments)
            if row["kind"] == "command":
                command = command_of(call.function_name, call.arguments)
                is_requested = command == str(arguments["command"])
            if is_requested:
                result.source_call_id = call.tool_call_id
                break
        if last is not None and (result.source_call_id or (name == OBSERVATION and not arguments)):
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


def _read_work(row: Row, request: Row, result: Any) -> tuple[str, Row, ObservationResult]:
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
        subagent_trajectory_ref=[SubagentTrajectoryRef(trajectory_id=scope) for scope in subagents]
        or None,
        extra=more or None,
    )


def read_answer(message: Mapping[str, Any]) -> Row:
    """Return the fields of a step that hold a message of a model."""
    reasoning = message.get("reasoning_content")
    if not isinstance(reasoning, str):
        blocks = message.get("thinking_blocks") or ()
        thoughts = (str(block.get("thinking") or "") for block in blocks)
        reasoning = "\n\n".join(filter(None, thoughts)) or None
    return {
        "message": read_content(message.get("content")),
        "reasoning_content": reasoning,
        "tool_calls": [_read_call(call) for call in message.get("tool_calls") or ()] or None,
    }


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    text = function.get("arguments")
    try:
        arguments = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {} if text in (None, "") else {"arguments": text}
    return ToolCall(
        tool_call_id=str(call.get("id") or ""),
        function_name=str(function.get("name") or ""),
        arguments=arguments,
    )


def _read_message(message: Mapping[str, Any]) -> tuple[list[ObservationResult], Any]:
    """Return the results of tools in a message to the model, and its content or None."""
    role, kind = message.get("role"), message.get("type")
    content = message.get("content", message.get("parts"))
    if role in ("assistant", "model") or kind in _ITEMS:
        return [], None
    if role == "tool" or kind == "function_call_output":
        output = message.get("output") if content is None else content
        return [_to_result(message.get("tool_call_id") or message.get("call_id"), output)], None
    if not isinstance(content, list):
        return [], "" if content is None else content
    results, rest = [], []
    for part in content:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            results.append(_to_result(part.get("tool_use_id"), part.get("content")))
        elif isinstance(part, dict) and isinstance(part.get("functionResponse"), dict):
            result = part["functionResponse"]
            results.append(_to_result(result.get("id"), result.get("response")))
        else:
            rest.append(part)
    return results, rest if rest or not results else None


def _to_result(call_id: Any, content: Any) -> ObservationResult:
    return ObservationResult(source_call_id=str(call_id or ""), content=plain(content))


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
    """Refer to each scope from the scope around it, at the time of its start."""
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
