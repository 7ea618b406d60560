"""The events of a sample of Inspect as steps. Values of Inspect's own types are not typed here."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.formats import traces
from flows.formats.atif_files import inside
from flows.formats.traces import TracedCall, TracedStep

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


def steps(events: Iterable[Any]) -> Iterator[TracedStep]:
    """Yield the answered model calls and the uses of tools. Scorers are left out."""
    listed = list(events)
    spans = _spans(listed)
    heard: dict[str, _Heard] = {}
    for event in listed:
        span = spans.get(event.span_id, _OUTSIDE)
        if span.of_scoring or event.pending:
            continue
        if event.event == "model" and event.error is None:
            conversation = heard.setdefault(span.scope, _Heard())
            yield _answer(span.scope, event, conversation.new(event.input))
        elif event.event == "tool":
            yield _use(span.scope, event, spans)


@dataclass
class _Heard:
    """The messages that the model of one scope has been sent."""

    known: set[str] = field(default_factory=set)

    def new(self, messages: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the new messages of a request, without answers and results of tools."""
        found = []
        for message in messages:
            key = message.id or message.model_dump_json()
            if key not in self.known and message.role in ("system", "user"):
                found.append({"role": message.role, "content": plain(message.content)})
            self.known.add(key)
        return found


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
            scope = inside(scope, event.name)
            counts[scope] += 1
            scope = scope if counts[scope] == 1 else f"{scope}-{counts[scope]}"
        spans[event.id] = _Span(
            scope,
            of_agent=outer.of_agent or is_agent,
            of_scoring=outer.of_scoring or event.type in _SCORING,
        )
    return spans


def _answer(scope: str, event: Any, messages: list[dict[str, Any]]) -> TracedStep:
    output = event.output
    usage = output.usage
    call = TracedCall(
        model=event.model,
        tokens=tokens(usage),
        cost_usd=traces.amount(usage and usage.total_cost, "total_cost"),
        role=event.role or "",
        finish_reason=output.stop_reason if output.choices else None,
        latency_s=event.working_time,
        retries=event.retries or 0,
    )
    return TracedStep(
        scope,
        "model",
        {"messages": messages} if messages else {},
        _message(output.message if output.choices else None),
        started_at=event.timestamp,
        duration_s=event.working_time,
        call=call,
    )


def tokens(usage: Any) -> dict[str, int | None]:
    """Return the tokens of a call by column. Inspect counts cached input apart from the rest."""
    if usage is None:
        return dict.fromkeys(traces.TOKENS)
    read, written = usage.input_tokens_cache_read, usage.input_tokens_cache_write
    found = {
        "input_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: traces.count(number, name) for name, number in found.items()}


def _message(message: Any) -> dict[str, Any]:
    """Return the answer of a model in the OpenAI form."""
    if message is None:
        return {"role": "assistant", "content": ""}
    answer: dict[str, Any] = {"role": "assistant", "content": message.text}
    parts = message.content if isinstance(message.content, list) else []
    thoughts = [part.reasoning for part in parts if part.type == "reasoning" and part.reasoning]
    if thoughts:
        answer["reasoning_content"] = "\n\n".join(thoughts)
    if message.tool_calls:
        answer["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": traces.json_text(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return answer


def _use(scope: str, event: Any, spans: Mapping[str, _Span]) -> TracedStep:
    content = plain(event.result)
    if event.error is not None:
        content = f"{event.error.type}: {event.error.message}"
    elif event.agent_span_id in spans:
        content = {"content": content, "subagents": [spans[event.agent_span_id].scope]}
    return traces.used(
        scope,
        event.function,
        event.arguments,
        content,
        started_at=event.timestamp,
        duration_s=event.working_time,
    )


def plain(content: Any) -> Any:
    """Return content as text, or as JSON if it has other parts than text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        dumped = [part.model_dump(mode="json", exclude_none=True) for part in content]
        texts = [part["text"] for part in dumped if part.get("type") == "text"]
        return "\n".join(texts) if len(texts) == len(dumped) else dumped
    if hasattr(content, "model_dump"):
        return plain([content])
    return json.dumps(content)
