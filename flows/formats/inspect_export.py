"""Attempts as one log of Inspect, for its viewer.

A sample is an attempt. A scope of an attempt is a span of an agent inside another.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from atif import ContentPart, Step
from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
)
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

from flows.formats import step_rows
from flows.formats.atif_steps import CUT_OFF, plain
from flows.formats.attempts import KEY, LOST, AttemptFacts, ExchangedAttempt, to_extra
from flows.storage.lake import Row

SCORER = "resolved"
"""Name of the score."""

_STOPS = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
}
"""Inspect's stop reasons by the providers' reasons. All others are unknown."""


def create_log(
    experiment: str, attempts: Sequence[ExchangedAttempt], rates: Mapping[str, tuple[int, int]]
) -> Any:
    """Return attempts as a log.

    A sample is an instance, and with several arms `INSTANCE@ARM`. `rates` has the resolved and the
    planned cells of each arm.
    """
    facts = [attempt.facts for attempt in attempts]
    arms = list(dict.fromkeys(str(fact.arm) for fact in facts))
    is_paired = len(arms) > 1
    ids = [f"{fact.instance_id}@{fact.arm}" if is_paired else fact.instance_id for fact in facts]
    samples = list(map(_create_sample, attempts, ids))
    starts = [fact.started_at for fact in facts if fact.started_at]
    created = min(starts, default=datetime.now(UTC)).isoformat()
    models = dict.fromkeys(attempt.model for attempt in attempts if attempt.model)
    usage: dict[str, Any] = {}
    for sample in samples:
        for model, tokens in sample.model_usage.items():
            usage[model] = usage[model] + tokens if model in usage else tokens
    ended = [sample.completed_at for sample in samples if sample.completed_at]
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=experiment,
            task_id=experiment if rates else attempts[0].digest,
            run_id=experiment,
            eval_id=experiment,
            dataset=EvalDataset(
                name=experiment,
                samples=len(set(ids)),
                sample_ids=sorted(set(ids)),
            ),
            model=", ".join(models) or "none/none",
            config=EvalConfig(epochs=1 + max(fact.repeat or 0 for fact in facts)),
            packages={"durabench": version("durabench")},
            metadata={KEY: {"experiment": experiment}},
        ),
        plan=EvalPlan(name=experiment, steps=[EvalPlanStep(solver=arm) for arm in arms]),
        results=_create_results(facts, rates),
        stats=EvalStats(
            started_at=created, completed_at=max(ended, default=created), model_usage=usage
        ),
        samples=samples,
    )


def _create_results(
    facts: Sequence[AttemptFacts], rates: Mapping[str, tuple[int, int]]
) -> EvalResults:
    scored: dict[str, int] = defaultdict(int)
    for fact in facts:
        scored[str(fact.arm)] += fact.verdict not in (None, "infrastructure")
    return EvalResults(
        total_samples=sum(planned for _, planned in rates.values()),
        completed_samples=len(facts),
        scores=[
            EvalScore(
                name=arm,
                scorer=SCORER,
                scored_samples=scored[arm],
                unscored_samples=planned - scored[arm],
                metrics={"accuracy": EvalMetric(name="accuracy", value=resolved / planned)},
            )
            for arm, (resolved, planned) in rates.items()
        ],
    )


def _create_sample(attempt: ExchangedAttempt, sample_id: str) -> Any:
    facts = attempt.facts
    start = facts.started_at or datetime.fromtimestamp(0, UTC)
    scopes = {
        scope: _Conversation(scope, steps, facts.model, start)
        for scope, steps in attempt.lines.items()
    }
    # Calls of an arm with scopes may all be in them.
    messages = [message for scope in scopes.values() for message in scope.messages]
    messages = scopes[""].messages or messages
    completed_at = None
    if facts.duration_s is not None and facts.started_at is not None:
        completed_at = (start + timedelta(seconds=facts.duration_s)).isoformat()
    error = None
    if facts.outcome in LOST:
        message = f"{facts.outcome}: {facts.detail}"
        error = EvalError(message=message, traceback="", traceback_ansi="")
    scores = None  # without a verdict, or if infrastructure ended the grading
    if facts.verdict not in (None, "infrastructure"):
        scores = {
            SCORER: Score(
                value="C" if facts.verdict == "resolved" else "I",
                explanation=facts.reason or facts.verdict,
                metadata={"outcome": facts.verdict},
            )
        }
    tasks = (message.text for message in messages if isinstance(message, ChatMessageUser))
    task = next(tasks, "") or facts.instance_id
    return EvalSample(
        id=sample_id,
        epoch=(facts.repeat or 0) + 1,
        input=task,
        target="",
        messages=messages or [ChatMessageUser(content=task)],
        output=scopes[""].output,
        scores=scores,
        metadata=to_extra(facts),
        events=list(_merge_events(str(facts.arm), scopes)),
        model_usage=_sum_model_usage(attempt),
        started_at=facts.started_at.isoformat() if facts.started_at else None,
        completed_at=completed_at,
        total_time=facts.duration_s,
        uuid=attempt.digest,
        error=error,
    )


def _sum_model_usage(attempt: ExchangedAttempt) -> dict[str, Any]:
    """Return the sums of the calls of each model, or the totals of an attempt without calls."""
    sums: dict[str, Any] = {}
    calls = step_rows.calls(attempt.lines, attempt.facts.model)
    for call, _ in calls:
        if usage := _create_usage(call):
            model = call["model"]
            sums[model] = sums[model] + usage if model in sums else usage
    if not calls and (total := _create_usage(attempt.facts.model_dump())) and total.total_tokens:
        sums[attempt.model or "unknown"] = total
    return sums


def _create_usage(row: Row) -> Any:
    """Return the tokens and the cost of a row; None for one with unknown tokens, because Inspect
    has no partly known usage."""
    input_tokens, output_tokens = row["input_tokens"], row["output_tokens"]
    if input_tokens is None or output_tokens is None:
        return None
    read, written = row["cache_read_tokens"], row["cache_write_tokens"]
    return ModelUsage(
        input_tokens=max(input_tokens - (read or 0) - (written or 0), 0),
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        input_tokens_cache_read=read,
        input_tokens_cache_write=written,
        reasoning_tokens=row["reasoning_tokens"],
        total_cost=row["cost_usd"],
    )


class _Conversation:
    """The conversation of one scope, as messages and events."""

    def __init__(self, scope: str, line: Sequence[Step], model: str, start: datetime) -> None:
        self._scope, self._model, self._start = scope, model, start
        self.messages: list[Any] = []
        self.output: Any = ModelOutput()
        self.events: list[Any] = []
        at = start
        for step in line:
            at = step_rows.moment(step.timestamp) or at
            self._add(step, at)

    def _add(self, step: Step, at: datetime) -> None:
        cut_off = (step.extra or {}).get(CUT_OFF)
        if cut_off is not None:
            self._add_event(InfoEvent, at, source=KEY, data={CUT_OFF: cut_off})
        elif step.source == "agent":
            if step.llm_call_count != 0:
                self._add_answer(step, at)
        else:
            kind = ChatMessageSystem if step.source == "system" else ChatMessageUser
            self.messages.append(kind(content=_read_text(step.message)))
        self._add_results(step, at)

    def _add_event(self, kind: Any, at: datetime, **fields: Any) -> None:
        working_start = max((at - self._start).total_seconds(), 0.0)
        span_id = _span_id(self._scope)
        self.events.append(
            kind(timestamp=at, working_start=working_start, span_id=span_id, **fields)
        )

    def _add_answer(self, step: Step, at: datetime) -> None:
        call = step_rows.call_row(step, self._model) if step.metrics else None
        content: Any = _read_text(step.message)
        if step.reasoning_content is not None:
            reasoning = ContentReasoning(reasoning=step.reasoning_content)
            content = [reasoning, ContentText(text=content)]
        message = ChatMessageAssistant(
            content=content,
            tool_calls=[
                ToolCall(
                    id=tool.tool_call_id, function=tool.function_name, arguments=tool.arguments
                )
                for tool in step.tool_calls or ()
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
                usage=_create_usage(call),
                time=call["latency_s"],
            )
            self._add_event(
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
                completed=_add_seconds(at, call["latency_s"]),
                working_time=call["latency_s"],
            )
        self.messages.append(message)

    def _add_results(self, step: Step, at: datetime) -> None:
        """Add the results of a step. Results of the model's tool calls are also messages."""
        calls = {call.tool_call_id: call for call in step.tool_calls or ()}
        for result in step.observation.results if step.observation else ():
            call, extra = calls.get(result.source_call_id or ""), result.extra or {}
            if call is None and result.content is None:
                continue  # a mere reference to a subagent
            content = _read_text(result.content)
            started_at = step_rows.moment(extra.get("started_at")) or at
            name = call.function_name if call else step_rows.OBSERVATION
            refs = result.subagent_trajectory_ref
            self._add_event(
                ToolEvent,
                started_at,
                id=result.source_call_id or f"work-{len(self.events)}",
                function=name,
                arguments=call.arguments if call else {},
                result=content,
                completed=_add_seconds(started_at, extra.get("duration_s")),
                working_time=extra.get("duration_s"),
                agent_span_id=_span_id(str(refs[0].trajectory_id)) if refs else None,
                metadata={k: extra[k] for k in ("exit_code", "timed_out") if k in extra} or None,
            )
            if call and step.llm_call_count != 0:
                self.messages.append(
                    ChatMessageTool(content=content, tool_call_id=call.tool_call_id, function=name)
                )


def _read_text(content: str | list[ContentPart] | None) -> str:
    if isinstance(content, list):
        return plain([part.model_dump(mode="json", exclude_none=True) for part in content])
    return content or ""


def _add_seconds(at: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else at + timedelta(seconds=seconds)


def _span_id(scope: str) -> str:
    return scope or "main"


def _merge_events(arm: str, scopes: Mapping[str, _Conversation]) -> Iterator[Any]:
    """Yield the events of all scopes by time, each scope between the ends of its span."""
    merged: list[Any] = []
    for name, scope in scopes.items():
        times = [
            event.timestamp
            for inner, conversation in scopes.items()
            if not name or inner == name or inner.startswith(f"{name}/")
            for event in conversation.events
        ]
        if not times:
            continue
        outer = step_rows.outside(name, scopes) if name else ""
        span = {"id": _span_id(name), "span_id": _span_id(name)}
        begin = SpanBeginEvent(
            **span,
            name=name.removeprefix(f"{outer}/") if name else arm,
            type="agent",
            parent_id=_span_id(outer) if name else None,
            timestamp=min(times),
            working_start=0.0,
        )
        end = SpanEndEvent(**span, timestamp=max(times), working_start=0.0)
        merged += [begin, *scope.events, end]
    yield from sorted(merged, key=lambda event: event.timestamp)
