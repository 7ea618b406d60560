"""Attempts as samples of Inspect. A scope of an attempt is a span of an agent inside another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from atif import ContentPart, Step
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

from flows.formats import steps
from flows.formats.attempts import KEY, AttemptFacts, ExchangedAttempt, to_extra
from flows.formats.talk import CUT_OFF, plain
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


def sample(attempt: ExchangedAttempt, sample_id: str) -> Any:
    """Return an attempt as a sample."""
    facts = attempt.facts
    begun = facts.started_at or datetime.fromtimestamp(0, UTC)
    scopes = {scope: _Scope(scope, own, facts.model, begun) for scope, own in attempt.lines.items()}
    main = scopes[""]
    ended = None
    if facts.duration_s is not None and facts.started_at is not None:
        ended = (begun + timedelta(seconds=facts.duration_s)).isoformat()
    return EvalSample(
        id=sample_id,
        epoch=(facts.repeat or 0) + 1,
        input=main.task or facts.instance_id,
        target="",
        messages=main.messages,
        output=main.output,
        scores=_scores(facts),
        metadata=to_extra(facts),
        events=list(_events(str(facts.arm), scopes)),
        model_usage=_model_usage(attempt),
        started_at=facts.started_at.isoformat() if facts.started_at else None,
        completed_at=ended,
        total_time=facts.duration_s,
        uuid=attempt.digest,
        error=_error(facts) if facts.outcome in _LOST else None,
    )


def _error(facts: AttemptFacts) -> Any:
    message = f"{facts.outcome}: {facts.detail}"
    return EvalError(message=message, traceback="", traceback_ansi="")


def _scores(facts: AttemptFacts) -> dict[str, Any] | None:
    """Return the verdict as a score; None without one, or if infrastructure ended the grading."""
    if facts.verdict in (None, "infrastructure"):
        return None
    value = "C" if facts.verdict == "resolved" else "I"
    explanation = facts.reason or facts.verdict
    return {
        SCORER: Score(value=value, explanation=explanation, metadata={"outcome": facts.verdict})
    }


def _model_usage(attempt: ExchangedAttempt) -> dict[str, Any]:
    """Return the sums of the calls of each model, or the totals of an attempt without calls."""
    found: dict[str, Any] = {}
    calls = steps.calls(attempt.lines, attempt.facts.model)
    for call, _ in calls:
        if usage := _usage(call):
            model = call["model"]
            found[model] = found[model] + usage if model in found else usage
    if not calls and (total := _usage(attempt.facts.model_dump())) and total.total_tokens:
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

    def __init__(self, name: str, line: Sequence[Step], model: str, begun: datetime) -> None:
        self._name, self._model, self._begun = name, model, begun
        self.messages: list[Any] = []
        self.output: Any = ModelOutput()
        self.events: list[_Event] = []
        at = begun
        for step in line:
            at = steps.moment(step.timestamp) or at
            self._add(step, at)

    @property
    def task(self) -> str:
        """The first message of the user; empty if there is none."""
        said = (each.text for each in self.messages if isinstance(each, ChatMessageUser))
        return next(said, "")

    def _add(self, step: Step, at: datetime) -> None:
        cut_off = (step.extra or {}).get(CUT_OFF)
        if cut_off is not None:
            self._event(InfoEvent, at, source=KEY, data={CUT_OFF: cut_off})
        elif step.source == "agent":
            if step.llm_call_count != 0:
                self._answer(step, at)
        else:
            kind = ChatMessageSystem if step.source == "system" else ChatMessageUser
            self.messages.append(kind(content=_text(step.message)))
        self._use(step, at)

    def _event(self, kind: Any, at: datetime, **fields: Any) -> None:
        start = max((at - self._begun).total_seconds(), 0.0)
        event = kind(timestamp=at, working_start=start, span_id=_span(self._name), **fields)
        self.events.append(_Event(at, event))

    def _answer(self, step: Step, at: datetime) -> None:
        call = steps.call_row(step, self._model) if step.metrics else None
        message = ChatMessageAssistant(
            content=_content(step),
            tool_calls=[
                ToolCall(
                    id=each.tool_call_id, function=each.function_name, arguments=each.arguments
                )
                for each in step.tool_calls or ()
            ]
            or None,
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

    def _use(self, step: Step, at: datetime) -> None:
        """Add the results of a step. Only those that a model asked for are messages."""
        asked = {call.tool_call_id: call for call in step.tool_calls or ()}
        for result in step.observation.results if step.observation else ():
            call, extra = asked.get(result.source_call_id or ""), result.extra or {}
            if call is None and result.content is None:
                continue  # a mere reference to a subagent
            content = _text(result.content)
            began = steps.moment(extra.get("started_at")) or at
            name = call.function_name if call else steps.OBSERVATION
            refs = result.subagent_trajectory_ref
            self._event(
                ToolEvent,
                began,
                id=result.source_call_id or f"work-{len(self.events)}",
                function=name,
                arguments=call.arguments if call else {},
                result=content,
                completed=_completed(began, extra.get("duration_s")),
                working_time=extra.get("duration_s"),
                agent_span_id=_span(str(refs[0].trajectory_id)) if refs else None,
                metadata={k: extra[k] for k in ("exit_code", "timed_out") if k in extra} or None,
            )
            if call and step.llm_call_count != 0:
                self.messages.append(
                    ChatMessageTool(content=content, tool_call_id=call.tool_call_id, function=name)
                )


def _content(step: Step) -> Any:
    text = _text(step.message)
    if step.reasoning_content is None:
        return text
    return [ContentReasoning(reasoning=step.reasoning_content), ContentText(text=text)]


def _text(content: str | list[ContentPart] | None) -> str:
    if isinstance(content, list):
        return plain([part.model_dump(mode="json", exclude_none=True) for part in content])
    return content or ""


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
        outer = steps.outside(name, scopes) if name else ""
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
