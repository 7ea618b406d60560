"""Import of Inspect's logs, `.eval` and `.json`, which its own package reads.

Values of Inspect's types are not typed here.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from atif import Metrics, ObservationResult, Step, SubagentTrajectoryRef, ToolCall

from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.display.terminal import warn
from flows.formats import atif_steps, attempts, lake_rows, step_rows
from flows.formats.attempts import ExchangedAttempt, ReadFiles
from flows.formats.folders import refuse_bomb, refuse_link
from flows.storage.lake import Row
from reports.format import plural

_LIMITS = {
    "time": "out_of_time",
    "working": "out_of_time",
    "message": "out_of_steps",
    "turn": "out_of_steps",
    "token": "out_of_budget",
    "cost": "out_of_budget",
    "operator": "interrupted",
}
"""Outcomes by the limit that ended a sample. All others count as gave up."""

_WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""The scores that Inspect writes as text, in lower case."""

_SCORING = frozenset({"scorer", "scorers"})
"""Types of spans whose model calls are not the agent's."""


def load_package() -> ModuleType:
    """Return Inspect's module that reads and writes logs. The package is an extra.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        import inspect_ai.log
    except ImportError:
        raise UsageError(
            "logs of Inspect need the package inspect-ai: pip install 'durabench[inspect]'"
        ) from None
    module: ModuleType = inspect_ai.log
    return module


class _LoggedSample(NamedTuple):
    path: Path
    log: Any
    sample: Any


def read(paths: Sequence[Path], scorer: str | None) -> ReadFiles:
    """Read the samples of logs.

    Epochs are repeats. Of a task that was retried, the sample of the latest log counts. `scorer`
    names the score that decides, where a sample has several. 1 or C is resolved, and any smaller
    score is not.

    Raises:
        UsageError: the package is missing, or a file or a score cannot be used.
    """
    module = load_package()
    logs = {path: _read_log(module, path) for path in _find_logs(module, paths)}
    latest: dict[tuple[str, str, int], _LoggedSample] = {}
    for path, log in sorted(logs.items(), key=lambda item: (item[1].eval.created, str(item[0]))):
        for sample in log.samples:
            key = (log.eval.task_id or str(path), str(sample.id), sample.epoch)
            latest[key] = _LoggedSample(path, log, sample)
    samples = list(latest.values())
    read_attempts = [_read_attempt(sample, scorer) for sample in samples]
    if partial := sum(0 < (_read_value(sample, scorer) or 0) < 1 for sample in samples):
        warn(f"Counted as not resolved: {plural(partial, 'score')} between 0 and 1.")
    names = dict.fromkeys(log.eval.dataset.name or log.eval.task for log in logs.values())
    planned = [  # all samples that the tasks chose, unless Durabench wrote the log
        str(sample_id)
        for log in logs.values()
        if attempts.KEY not in (log.eval.metadata or {})
        for sample_id in log.eval.dataset.sample_ids or ()
    ]
    return ReadFiles(read_attempts, ", ".join(names), planned)


def _find_logs(module: ModuleType, paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        names = [info.name.removeprefix("file://") for info in module.list_eval_logs(str(path))]
        if not names:
            raise UsageError(f"{path} contains no log of Inspect")
        yield from (refuse_link(Path(name), path) for name in sorted(names))


def _read_log(module: ModuleType, path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"{path} cannot be read: there is no such file")
    refuse_bomb(path)
    try:
        log = module.read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # of any library behind the formats
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"{path}: not a log of Inspect ({first})") from None
    if not log.samples:
        raise UsageError(f"{path} has no samples: run the task without --no-log-samples")
    return log


def _read_attempt(entry: _LoggedSample, scorer: str | None) -> ExchangedAttempt:
    log, sample = entry.log, entry.sample
    source = f"{entry.path}, sample {sample.id}, epoch {sample.epoch}"
    model = "none" if log.eval.model == "none/none" else log.eval.model
    digest = sample.uuid or f"{log.eval.run_id}/{sample.id}/{sample.epoch}"
    try:
        stated = attempts.of_extra(sample.metadata)
        lines = _read_lines(sample.events)
        usage = _read_usage(sample, step_rows.calls(lines, model))
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    if stated:
        return ExchangedAttempt(stated, source, digest, lines)
    outcome, verdict, detail = _read_ending(sample, _read_value(entry, scorer))
    score, metadata = _find_score(entry, scorer), sample.metadata or {}
    # A scorer of SWE-bench stores the patch with its score.
    patch = (score.metadata or {}).get("model_patch") if score is not None else None
    repo, difficulty = metadata.get("repo"), metadata.get("difficulty")
    plan = [step.solver for step in log.plan.steps]
    facts = attempts.describe(
        source,
        usage,
        agent=log.eval.solver or (plan[-1] if plan else log.eval.task),
        model=model,
        instance_id=str(sample.id),
        repo=repo if isinstance(repo, str) and repo else lake_rows.repository(str(sample.id)),
        outcome=outcome,
        detail=detail,
        difficulty=difficulty if isinstance(difficulty, str) else None,
        started_at=datetime.fromisoformat(sample.started_at) if sample.started_at else None,
        duration_s=sample.total_time,
        patch=patch if isinstance(patch, str) else None,
        verdict=verdict,
        versions=log.eval.packages,
    )
    order = (log.eval.created, f"{sample.epoch:06}")
    return ExchangedAttempt(facts, source, digest, lines, order=order)


def _read_ending(sample: Any, value: float | None) -> tuple[str, EvaluationOutcome | None, str]:
    """Return outcome, verdict and detail of a sample with this score."""
    verdict: EvaluationOutcome | None = None
    if value is not None:
        verdict = "resolved" if value >= 1 else "unresolved"
    if sample.invalidation is not None:
        return "infrastructure", None, "the sample was invalidated"
    if sample.error is not None:
        return "gave_up" if verdict else "infrastructure", verdict, sample.error.message
    if sample.limit is not None:
        outcome = _LIMITS.get(sample.limit.type, "gave_up")
        detail = sample.limit.reason or f"limit: {sample.limit.type} {sample.limit.limit:g}"
        return outcome, None if outcome == "interrupted" else verdict, detail
    return "submitted", verdict, f"sample of epoch {sample.epoch}"


def _find_score(entry: _LoggedSample, scorer: str | None) -> Any:
    """Return the score that decides; None if there is none."""
    scores = entry.sample.scores or {}
    if not scores:
        return None
    if scorer in scores:
        return scores[scorer]
    if scorer is not None or len(scores) > 1:
        raise UsageError(
            f"{entry.path}: sample {entry.sample.id} has the scores {', '.join(sorted(scores))}: "
            "choose one with --scorer"
        )
    return next(iter(scores.values()))


def _read_value(entry: _LoggedSample, scorer: str | None) -> float | None:
    """Return the score that decides as a number; None if there is none."""
    score = _find_score(entry, scorer)
    if score is None:
        return None
    value = score.value
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(
            f"{entry.path}: the score of sample {entry.sample.id} is {score.value!r}, and must be "
            "a number or C, I, P or N; choose another with --scorer"
        ) from None
    if number > 1:
        raise UsageError(
            f"{entry.path}: the score of sample {entry.sample.id} is {number:g}, but a resolved "
            "sample scores 1; choose another with --scorer"
        )
    return None if math.isnan(number) else number


def _read_usage(sample: Any, calls: Sequence[tuple[Row, int]]) -> Row:
    """Return the usage of a sample: the sum of the agent's calls, without calls of scorers.

    A log without events has only the sums of all calls.
    """
    if calls or sample.events:
        return attempts.sum_usage(calls, {}, None)
    usages = list(sample.model_usage.values())
    if not usages:
        return {}
    tokens, costs = list(map(_read_tokens, usages)), [usage.total_cost for usage in usages]
    return {
        **{name: attempts.total(counts[name] for counts in tokens) for name in attempts.TOKENS},
        "cost_usd": None if None in costs else attempts.amount(sum(costs), "total_cost"),
    }


def _read_tokens(usage: Any) -> dict[str, int | None]:
    """Return the tokens of a call by column. Inspect counts cached input apart from the rest."""
    if usage is None:
        return dict.fromkeys(attempts.TOKENS)
    read, written = usage.input_tokens_cache_read, usage.input_tokens_cache_write
    counts = {
        "input_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: attempts.count(number, name) for name, number in counts.items()}


@dataclass(frozen=True)
class _Span:
    scope: str
    """The scope of its events."""
    of_agent: bool
    """True inside an agent, so that an agent in it is a subagent."""
    of_scoring: bool


_OUTSIDE = _Span("", of_agent=False, of_scoring=False)


def _read_spans(events: Iterable[Any]) -> dict[str, _Span]:
    """Return the spans by id. An agent inside an agent is a separate scope."""
    spans: dict[str, _Span] = {}
    counts: Counter[str] = Counter()
    for event in events:
        if event.event != "span_begin":
            continue
        outer = spans.get(event.parent_id, _OUTSIDE)
        is_agent = event.type == "agent"
        scope = outer.scope
        if is_agent and outer.of_agent:
            scope = step_rows.inside(scope, event.name)
            counts[scope] += 1
            scope = scope if counts[scope] == 1 else f"{scope}-{counts[scope]}"
        spans[event.id] = _Span(
            scope,
            of_agent=outer.of_agent or is_agent,
            of_scoring=outer.of_scoring or event.type in _SCORING,
        )
    return spans


def _read_lines(events: Sequence[Any]) -> dict[str, list[Step]]:
    """Return the answered model calls and the uses of tools by scope, without scorers."""
    spans = _read_spans(events)
    lines: dict[str, list[Step]] = {"": []}
    seen: dict[str, set[str]] = {}
    for event in events:
        span = spans.get(event.span_id, _OUTSIDE)
        if span.of_scoring or event.pending:
            continue
        line = lines.setdefault(span.scope, [])
        if event.event == "model" and event.error is None:
            keys = seen.setdefault(span.scope, set())
            for message in event.input:
                key = message.id or message.model_dump_json()
                if key not in keys and message.role in ("system", "user"):
                    text = _read_content(message.content)
                    line.append(Step(step_id=len(line) + 1, source=message.role, message=text))
                keys.add(key)
            line.append(_read_answer(len(line) + 1, event))
        elif event.event == "tool":
            _add_tool_use(line, event, spans)
    return lines


def _read_answer(number: int, event: Any) -> Step:
    output, message = event.output, event.output.message if event.output.choices else None
    parts = message.content if message and isinstance(message.content, list) else []
    thoughts = [part.reasoning for part in parts if part.type == "reasoning" and part.reasoning]
    tokens = _read_tokens(output.usage)
    more = {
        **{name: tokens[name] for name in ("cache_write_tokens", "reasoning_tokens")},
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
            prompt_tokens=tokens["input_tokens"],
            cached_tokens=tokens["cache_read_tokens"],
            completion_tokens=tokens["output_tokens"],
            cost_usd=output.usage and output.usage.total_cost,
            extra={name: value for name, value in more.items() if value is not None},
        ),
        llm_call_count=1,
    )


def _add_tool_use(line: list[Step], event: Any, spans: Mapping[str, _Span]) -> None:
    """Add the use of a tool to the step that requested it, or as a separate step."""
    content = _read_content(event.result)
    refs = None
    if event.error is not None:
        content = f"{event.error.type}: {event.error.message}"
    elif event.agent_span_id in spans:
        refs = [SubagentTrajectoryRef(trajectory_id=spans[event.agent_span_id].scope)]
    for step in reversed(line):
        if any(call.tool_call_id == event.id for call in atif_steps.find_waiting(step)):
            break
    else:
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
    metadata = event.metadata or {}
    result = ObservationResult(
        source_call_id=event.id,
        content=content,
        subagent_trajectory_ref=refs,
        extra={
            **{name: metadata[name] for name in ("exit_code", "timed_out") if name in metadata},
            "duration_s": event.working_time,
            "started_at": event.timestamp.isoformat(),
        },
    )
    atif_steps.observe(step, result)


def _read_content(content: Any) -> Any:
    """Return content as text, or as parts if some are not text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if not all(hasattr(part, "model_dump") for part in parts):
        return atif_steps.plain(content)
    dumped = [part.model_dump(mode="json", exclude_none=True) for part in parts]
    is_text = all(part.get("type") == "text" for part in dumped)
    return atif_steps.plain(dumped) if is_text else atif_steps.read_content(dumped)
