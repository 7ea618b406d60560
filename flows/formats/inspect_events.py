"""The events of a sample of Inspect as steps of ATIF.

Values of Inspect's own types are not typed here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atif import Metrics, ObservationResult, Step, SubagentTrajectoryRef, ToolCall

from flows.formats import attempts, steps, talk

_SCORING = frozenset({"scorer", "scorers"})
"""Types of spans whose model calls are not the agent's."""


@dataclass(frozen=True)
class _Span:
    scope: str
    """The scope of its events."""
    of_agent: bool
    """True inside an agent, so that an agent in it is a subagent."""
    of_scoring: bool


_OUTSIDE = _Span("", of_agent=False, of_scoring=False)


def _spans(events: Iterable[Any]) -> dict[str, _Span]:
    """Return the spans by id. An agent inside an agent is a scope of its own."""
    spans: dict[str, _Span] = {}
    counts: Counter[str] = Counter()
    for event in events:
        if event.event != "span_begin":
            continue
        outer = spans.get(event.parent_id, _OUTSIDE)
        is_agent = event.type == "agent"
        scope = outer.scope
        if is_agent and outer.of_agent:
            scope = steps.inside(scope, event.name)
            counts[scope] += 1
            scope = scope if counts[scope] == 1 else f"{scope}-{counts[scope]}"
        spans[event.id] = _Span(
            scope,
            of_agent=outer.of_agent or is_agent,
            of_scoring=outer.of_scoring or event.type in _SCORING,
        )
    return spans


def read_lines(events: Iterable[Any]) -> dict[str, list[Step]]:
    """Return the answered model calls and the uses of tools by scope. Scorers are left out."""
    listed = list(events)
    spans = _spans(listed)
    lines: dict[str, list[Step]] = {"": []}
    known: dict[str, set[str]] = {}
    for event in listed:
        span = spans.get(event.span_id, _OUTSIDE)
        if span.of_scoring or event.pending:
            continue
        line = lines.setdefault(span.scope, [])
        if event.event == "model" and event.error is None:
            for message in _new(event.input, known.setdefault(span.scope, set())):
                text = _content(message.content)
                line.append(Step(step_id=len(line) + 1, source=message.role, message=text))
            line.append(_answer(len(line) + 1, event))
        elif event.event == "tool":
            _use(line, event, spans)
    return lines


def _new(messages: Iterable[Any], known: set[str]) -> Iterator[Any]:
    """Yield the new messages of a request, without answers and results of tools."""
    for message in messages:
        key = message.id or message.model_dump_json()
        if key not in known and message.role in ("system", "user"):
            yield message
        known.add(key)


def _answer(number: int, event: Any) -> Step:
    output, message = event.output, event.output.message if event.output.choices else None
    parts = message.content if message and isinstance(message.content, list) else []
    thoughts = [part.reasoning for part in parts if part.type == "reasoning" and part.reasoning]
    used = tokens(output.usage)
    more = {
        **{name: used[name] for name in ("cache_write_tokens", "reasoning_tokens")},
        "role": event.role,
        "finish_reason": output.stop_reason if message else None,
        "latency_s": event.working_time,
        "retries": event.retries,
    }
    return Step(
        step_id=number,
        timestamp=event.timestamp.isoformat(),
        source="agent",
        model_name=event.model,
        message=message.text if message else "",
        reasoning_content="\n\n".join(thoughts) or None,
        tool_calls=[
            ToolCall(tool_call_id=call.id, function_name=call.function, arguments=call.arguments)
            for call in (message and message.tool_calls) or ()
        ]
        or None,
        metrics=Metrics(
            prompt_tokens=used["input_tokens"],
            cached_tokens=used["cache_read_tokens"],
            completion_tokens=used["output_tokens"],
            cost_usd=output.usage and output.usage.total_cost,
            extra={name: value for name, value in more.items() if value is not None},
        ),
        llm_call_count=1,
    )


def tokens(usage: Any) -> dict[str, int | None]:
    """Return the tokens of a call by column. Inspect counts cached input apart from the rest."""
    if usage is None:
        return dict.fromkeys(attempts.TOKENS)
    read, written = usage.input_tokens_cache_read, usage.input_tokens_cache_write
    found = {
        "input_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: attempts.count(number, name) for name, number in found.items()}


def _use(line: list[Step], event: Any, spans: Mapping[str, _Span]) -> None:
    """Add the use of a tool to the step that asked for it, or on its own."""
    content = _content(event.result)
    refs = None
    if event.error is not None:
        content = f"{event.error.type}: {event.error.message}"
    elif event.agent_span_id in spans:
        refs = [SubagentTrajectoryRef(trajectory_id=spans[event.agent_span_id].scope)]
    stated = event.metadata or {}
    figures = {name: stated[name] for name in ("exit_code", "timed_out") if name in stated}
    step = next((one for one in reversed(line) if _is_waiting(one, event.id)), None)
    if step is None:
        call = ToolCall(
            tool_call_id=event.id, function_name=event.function, arguments=event.arguments
        )
        step = Step(
            step_id=len(line) + 1,
            timestamp=event.timestamp.isoformat(),
            source="agent",
            message="",
            tool_calls=[call],
            llm_call_count=0,
        )
        line.append(step)
    result = ObservationResult(
        source_call_id=event.id,
        content=content,
        subagent_trajectory_ref=refs,
        extra={
            **figures,
            "duration_s": event.working_time,
            "started_at": event.timestamp.isoformat(),
        },
    )
    talk.observe(step, result)


def _is_waiting(step: Step, call_id: str) -> bool:
    return any(call.tool_call_id == call_id for call in talk.find_waiting(step))


def _content(content: Any) -> Any:
    """Return content as text, or as parts if it has others than text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if not all(hasattr(part, "model_dump") for part in parts):
        return talk.plain(content)
    dumped = [part.model_dump(mode="json", exclude_none=True) for part in parts]
    is_text = all(part.get("type") == "text" for part in dumped)
    return talk.plain(dumped) if is_text else talk.read_content(dumped)
