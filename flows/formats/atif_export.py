"""Attempts as trajectories in the Agent Trajectory Interchange Format.

A scope of an attempt is a subagent. Work that no model asked for is a step without a model call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from atif import (
    Agent,
    ContentPart,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
    Trajectory,
)
from pydantic import ValidationError

from flows.formats import facts, talk
from flows.formats.filed import FiledAttempt, by_scope
from flows.formats.talk import Cut, Done, RecordedToolUse, Replied, Told, Turn
from flows.storage.lake import Row

VERSION = "ATIF-v1.7"
"""The first version with subagents in the same file and steps without a model call."""

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


def trajectory(attempt: FiledAttempt) -> Trajectory:
    """Return an attempt as a trajectory."""
    lines = {
        scope: _line(attempt, talk.turns(rows, attempt.calls))
        for scope, rows in by_scope(attempt).items()
    }
    _link(attempt, lines)
    return Trajectory(
        schema_version=VERSION,
        session_id=attempt.row["attempt_id"],
        trajectory_id=attempt.row["attempt_id"],
        agent=_agent(attempt),
        steps=_numbered(lines.pop("")) or [_nothing(attempt)],
        final_metrics=_totals(attempt.row),
        extra={facts.KEY: attempt.facts.model_dump(mode="json", exclude_none=True)},
        subagent_trajectories=[
            Trajectory(
                schema_version=VERSION,
                session_id=attempt.row["attempt_id"],
                trajectory_id=scope,
                agent=_agent(attempt),
                steps=_numbered(steps),
            )
            for scope, steps in lines.items()
        ]
        or None,
    )


_Dated = tuple[datetime | None, Step]


def _numbered(steps: Iterable[_Dated]) -> list[Step]:
    return [step.model_copy(update={"step_id": n}) for n, (_, step) in enumerate(steps, 1)]


def _nothing(attempt: FiledAttempt) -> Step:
    """Return the one step of an attempt without steps. The format demands one."""
    return Step(step_id=1, source="system", message=f"No steps: {attempt.row['outcome']}")


def _agent(attempt: FiledAttempt) -> Agent:
    return Agent(name=attempt.row["agent"], version=attempt.version, model_name=attempt.model)


def _totals(row: Row) -> FinalMetrics:
    return FinalMetrics(
        total_prompt_tokens=row["input_tokens"],
        total_completion_tokens=row["output_tokens"],
        total_cached_tokens=row["cache_read_tokens"],
        total_cost_usd=row["cost_usd"],
    )


def _line(attempt: FiledAttempt, turns: Sequence[Turn]) -> list[_Dated]:
    """Return the steps of a scope with their times, not numbered yet.

    A message has the time of the step that follows it, and was copied if that step was.
    """
    steps: list[_Dated] = []
    row: Row | None = None
    for turn in reversed(turns):
        row = row if isinstance(turn, Told) else turn.row
        is_copied = row is not None and (row["scope"], row["seq"]) in attempt.copied
        at = row["started_at"] if row else None
        steps.append((at, _step(attempt, turn, True if is_copied else None)))
    return steps[::-1]


def _step(attempt: FiledAttempt, turn: Turn, copied: bool | None) -> Step:
    match turn:
        case Told(role, content, done):
            return Step(
                step_id=1,
                source=role,
                message=_content(content),
                observation=_observed(done),
                is_copied_context=copied,
            )
        case Replied():
            return _answered(turn, copied, attempt.model)
        case Done():
            return _worked(turn, copied)
        case Cut(row, text):
            return Step(
                step_id=1,
                timestamp=_time(row),
                source="system",
                message=f"Cut off: {text}",
                is_copied_context=copied,
            )


def _answered(answer: Replied, copied: bool | None, usual: str | None) -> Step:
    """Return a message of the model. Its name is left out if it is the usual one."""
    call = answer.call
    model = call["model"] if call else None
    return Step(
        step_id=1,
        timestamp=_time(answer.row),
        source="agent",
        model_name=None if model in (usual, "unknown") else model,
        message=_content(answer.content),
        reasoning_content=answer.reasoning,
        tool_calls=[_tool_call(asked) for asked in answer.asked] or None,
        observation=_observed(answer.done),
        metrics=_metrics(call) if call else None,
        llm_call_count=1 if call else None,
        is_copied_context=copied,
    )


def _worked(done: Done, copied: bool | None) -> Step:
    """Return work that no model asked for."""
    row = done.row
    done.call_id = f"work-{row['seq'] if row else 0}"
    return Step(
        step_id=1,
        timestamp=_time(row),
        source="agent",
        message="",
        tool_calls=[_tool_call(RecordedToolUse(done.call_id, done.name, done.arguments))],
        observation=_observed([done]),
        llm_call_count=0,
        is_copied_context=copied,
    )


def _tool_call(asked: RecordedToolUse) -> ToolCall:
    return ToolCall(
        tool_call_id=asked.id, function_name=asked.name, arguments=dict(asked.arguments)
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


def _observed(done: Sequence[Done]) -> Observation | None:
    return Observation(results=[_result(each) for each in done]) if done else None


def _result(done: Done) -> ObservationResult:
    row: Mapping[str, Any] = done.row or {}
    more = {name: row.get(name) for name in ("exit_code", "duration_s", "timed_out")}
    return ObservationResult(
        source_call_id=done.call_id,
        content=None if done.content is None else _content(done.content),
        subagent_trajectory_ref=[_reference(scope) for scope in done.subagents] or None,
        extra={name: value for name, value in more.items() if value not in (None, False)} or None,
    )


def _reference(scope: str) -> SubagentTrajectoryRef:
    return SubagentTrajectoryRef(trajectory_id=scope)


def _content(content: Any) -> str | list[ContentPart]:
    """Return text, or parts if they are of the kinds that the format has."""
    if isinstance(content, list) and content:
        try:
            return [ContentPart.model_validate(part) for part in content]
        except ValidationError:
            pass
    return talk.plain(content)


def _time(row: Row | None) -> str | None:
    moment = row["started_at"] if row else None
    return moment.isoformat() if moment else None


def _link(attempt: FiledAttempt, lines: dict[str, list[_Dated]]) -> None:
    """Refer to each scope from the scope that it is in, at the time when it began."""
    named = {name for steps in lines.values() for _, step in steps for name in _referred(step)}
    begun: dict[str, list[datetime]] = {
        scope: [row["started_at"] for row in rows if row["started_at"]]
        for scope, rows in by_scope(attempt).items()
    }
    for scope in lines.keys() - named - {""}:
        at = min(begun[scope], default=None)
        parent = lines[talk.outside(scope, lines)]
        later = [n for n, (other, _) in enumerate(parent) if at and other and other > at]
        parent.insert(later[0] if later else len(parent), (at, _link_to(scope, at)))


def _link_to(scope: str, at: datetime | None) -> Step:
    result = ObservationResult(subagent_trajectory_ref=[_reference(scope)])
    return Step(
        step_id=1,
        timestamp=at.isoformat() if at else None,
        source="agent",
        message="",
        observation=Observation(results=[result]),
        llm_call_count=0,
    )


def _referred(step: Step) -> Iterator[str | None]:
    for result in step.observation.results if step.observation else ():
        for ref in result.subagent_trajectory_ref or ():
            yield ref.trajectory_id
