"""Attempts as samples of Inspect. A scope of an attempt is a span of an agent inside another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
from inspect_ai.log import EvalError, EvalSample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from flows.formats import facts, talk
from flows.formats.filed import FiledAttempt, by_scope
from flows.formats.talk import Cut, Done, RecordedToolUse, Replied, Told, Turn
from flows.storage.lake import Row

SCORER = "resolved"
"""Name of the score."""

_LOST = frozenset({"infrastructure", "refused", "budget_stop", "interrupted", "waiting"})
"""Outcomes that are an error of the sample."""

_STOPS = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
}
"""Inspect's reasons by those of providers. All others are unknown."""


def sample(attempt: FiledAttempt, sample_id: str) -> Any:
    """Return an attempt as a sample."""
    row = attempt.row
    begun = row["started_at"] or datetime.fromtimestamp(0, UTC)
    scopes = {
        scope: _Scope(scope, talk.turns(rows, attempt.calls), begun)
        for scope, rows in by_scope(attempt).items()
    }
    main = scopes[""]
    ended = row["duration_s"] is not None and row["started_at"] is not None
    return EvalSample(
        id=sample_id,
        epoch=row["repeat"] + 1,
        input=main.task or row["instance_id"],
        target="",
        messages=main.messages,
        output=main.output,
        scores=_scores(attempt),
        metadata={facts.KEY: attempt.facts.model_dump(mode="json", exclude_none=True)},
        events=list(_events(attempt.arm, scopes)),
        model_usage=_model_usage(attempt),
        started_at=row["started_at"].isoformat() if row["started_at"] else None,
        completed_at=(begun + timedelta(seconds=row["duration_s"])).isoformat() if ended else None,
        total_time=row["duration_s"],
        uuid=row["attempt_id"],
        error=_error(row) if row["outcome"] in _LOST else None,
    )


def _error(row: Row) -> Any:
    message = f"{row['outcome']}: {row['detail']}"
    return EvalError(message=message, traceback="", traceback_ansi="")


def _scores(attempt: FiledAttempt) -> dict[str, Any] | None:
    """Return the verdict as a score; None without one, or if infrastructure ended the grading."""
    if attempt.verdict in (None, "infrastructure"):
        return None
    value = "C" if attempt.verdict == "resolved" else "I"
    explanation = attempt.reason or attempt.verdict
    return {
        SCORER: Score(value=value, explanation=explanation, metadata={"outcome": attempt.verdict})
    }


def _model_usage(attempt: FiledAttempt) -> dict[str, Any]:
    """Return the sums of the calls of each model, or the totals of an attempt without calls."""
    found: dict[str, Any] = {}
    for call in attempt.calls.values():
        if usage := _usage(call):
            model = call["model"]
            found[model] = found[model] + usage if model in found else usage
    if not attempt.calls and (total := _usage(attempt.row)) and total.total_tokens:
        found[attempt.model or "unknown"] = total
    return found


def _usage(row: Row) -> Any:
    """Return the tokens and the cost of a row. Inspect has no partly known usage, so that one
    without a number of tokens is None."""
    given, said = row["input_tokens"], row["output_tokens"]
    if given is None or said is None:
        return None
    read, written = row["cache_read_tokens"], row["cache_write_tokens"]
    return ModelUsage(
        input_tokens=max(given - (read or 0) - (written or 0), 0),
        output_tokens=said,
        total_tokens=given + said,
        input_tokens_cache_read=read,
        input_tokens_cache_write=written,
        reasoning_tokens=row["reasoning_tokens"],
        total_cost=row["cost_usd"],
    )


@dataclass(frozen=True)
class _Event:
    at: datetime
    event: Any


class _Scope:
    """One conversation, as messages and events."""

    def __init__(self, name: str, turns: Sequence[Turn], begun: datetime) -> None:
        self._name, self._begun = name, begun
        self.messages: list[Any] = []
        self.output: Any = ModelOutput()
        self.events: list[_Event] = []
        at = begun
        for turn in turns:
            at = talk.moment(turn) or at
            self._add(turn, at)

    @property
    def task(self) -> str:
        """The first message of the user; empty if there is none."""
        said = (each.text for each in self.messages if isinstance(each, ChatMessageUser))
        return next(said, "")

    def _add(self, turn: Turn, at: datetime) -> None:
        match turn:
            case Told(role, content, done):
                kind = ChatMessageSystem if role == "system" else ChatMessageUser
                self.messages.append(kind(content=talk.plain(content)))
                self._use(done, at)
            case Replied():
                self._answer(turn, at)
                self._use(turn.done, at)
            case Done():
                self._use([turn], at)
            case Cut(_, text):
                data = {"cut_off": text}
                self._event(InfoEvent, at, source=facts.KEY, data=data)

    def _event(self, kind: Any, at: datetime, **fields: Any) -> None:
        start = max((at - self._begun).total_seconds(), 0.0)
        event = kind(timestamp=at, working_start=start, span_id=_span(self._name), **fields)
        self.events.append(_Event(at, event))

    def _answer(self, answer: Replied, at: datetime) -> None:
        call = answer.call
        message = ChatMessageAssistant(
            content=_content(answer),
            tool_calls=[_tool_call(asked) for asked in answer.asked] or None,
            model=call["model"] if call else None,
            source="generate",
        )
        if call:
            stop = _STOPS.get(call["finish_reason"] or "", "unknown")
            self.output = ModelOutput(
                model=call["model"],
                choices=[ChatCompletionChoice(message=message, stop_reason=stop)],
                usage=_usage(call),
                time=call["latency_s"],
            )
            self._event(
                ModelEvent,
                at,
                model=call["model"],
                role=call["role"] or None,
                input=list(self.messages),
                tools=[],
                tool_choice="auto",
                config=GenerateConfig(),
                output=self.output,
                retries=call["retries"] or None,
                completed=_completed(at, call["latency_s"]),
                working_time=call["latency_s"],
            )
        self.messages.append(message)

    def _use(self, done: Iterable[Done], at: datetime) -> None:
        for number, each in enumerate(done):
            row: Mapping[str, Any] = each.row or {}
            content = talk.plain(each.content)
            call_id = each.call_id or f"work-{row.get('seq', number)}"
            began = row.get("started_at") or at
            told = {name: row[name] for name in ("exit_code", "timed_out") if row.get(name)}
            self._event(
                ToolEvent,
                began,
                id=call_id,
                function=each.name,
                arguments=dict(each.arguments),
                result=content,
                completed=_completed(began, row.get("duration_s")),
                working_time=row.get("duration_s"),
                agent_span_id=_span(each.subagents[0]) if each.subagents else None,
                metadata=told or None,
            )
            if each.call_id is not None:
                message = ChatMessageTool(content=content, tool_call_id=call_id, function=each.name)
                self.messages.append(message)


def _content(answer: Replied) -> Any:
    text = talk.plain(answer.content)
    if answer.reasoning is None:
        return text
    return [ContentReasoning(reasoning=answer.reasoning), ContentText(text=text)]


def _tool_call(asked: RecordedToolUse) -> Any:
    return ToolCall(id=asked.id, function=asked.name, arguments=dict(asked.arguments))


def _completed(at: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else at + timedelta(seconds=seconds)


def _span(scope: str) -> str:
    return scope or "main"


def _events(arm: str, scopes: Mapping[str, _Scope]) -> Iterator[Any]:
    """Yield the events of all scopes by time, each scope between the ends of its span."""
    merged: list[_Event] = []
    for name, scope in scopes.items():
        times = [
            event.at
            for inner, each in scopes.items()
            if not name or inner == name or inner.startswith(f"{name}/")
            for event in each.events
        ]
        if not times:
            continue
        outer = talk.outside(name, scopes) if name else ""
        shown = name.removeprefix(f"{outer}/") if name else arm
        span = {"id": _span(name), "span_id": _span(name)}
        begin = SpanBeginEvent(
            **span,
            name=shown,
            type="agent",
            parent_id=_span(outer) if name else None,
            timestamp=min(times),
            working_start=0.0,
        )
        end = SpanEndEvent(**span, timestamp=max(times), working_start=0.0)
        merged += [_Event(min(times), begin), *scope.events, _Event(max(times), end)]
    for each in sorted(merged, key=lambda event: event.at):
        yield each.event
