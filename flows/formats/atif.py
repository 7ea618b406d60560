"""Import trajectories in the Agent Trajectory Interchange Format, ATIF-v1.0 to ATIF-v1.8."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atif import ContentPart, FinalMetrics, Metrics, ObservationResult, Step, ToolCall, Trajectory

from flows.display.errors import UsageError
from flows.formats import atif_files, facts, filing, lake_rows, traces
from flows.formats.atif_files import Recording, TrajectoryPart
from flows.formats.comparisons import Comparisons
from flows.formats.filing import ImportRequest
from flows.formats.imported_arms import Summary
from flows.formats.traces import Harness, Trace, TracedCall, TracedStep

_EXTRA_TOKENS = {
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens", "reasoning_output_tokens"),
}
"""Names of further counts that agents write beside those of the format, by column."""

_NAMES_OF_INSTANCES = ("instance_id", "task_id", "task_name")
"""Free fields that name the instance, the first one that is there."""

_ENDINGS = (".json", ".atif", ".traj", ".trajectory")

DETAIL = "ATIF trajectory"
"""Detail of an attempt: the format does not say how it ended."""


def import_atif(
    paths: Sequence[Path],
    experiment: str,
    arm: str | None,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Import trajectories. Return their arms.

    A file says nothing about its instance in a field of the format: the name is taken from the free
    fields, or else from the file. The format has no verdict and no patch either; only trajectories
    that `durabench export` wrote have them.

    Raises:
        UsageError: a file or a comparison cannot be used; nothing was written.
    """
    found = [trace(recording) for recording in atif_files.find(paths)]
    origin = ImportRequest(
        experiment, ", ".join(dict.fromkeys(path.resolve().name for path in paths)), arm
    )
    return filing.file(found, origin, lake_path, comparisons)


def trace(recording: Recording) -> Trace:
    """Return the attempt of a recording.

    Raises:
        UsageError: a figure or a fact in it cannot be used.
    """
    first = recording.first
    try:
        own = facts.of_extra(first.extra)
        steps = [step for part in recording.parts for step in _steps(part, first)]
        calls = [step.call for step in steps if step.call]
        total = recording.last.final_metrics or FinalMetrics()
        usage = traces.usage_of(
            calls,
            {
                "input_tokens": traces.count(total.total_prompt_tokens, "total_prompt_tokens"),
                "cache_read_tokens": traces.count(total.total_cached_tokens, "total_cached_tokens"),
                "output_tokens": traces.count(
                    total.total_completion_tokens, "total_completion_tokens"
                ),
            },
            traces.amount(total.total_cost_usd, "total_cost_usd"),
        )
    except ValueError as error:
        raise UsageError(f"{recording.path}: {error}") from None
    if own:
        return traces.told(own, steps, str(recording.path), recording.digest)
    instance_id = _instance(recording)
    times = [step.started_at for step in steps if step.started_at]
    return Trace(
        source=str(recording.path),
        harness=_harness(first),
        instance_id=instance_id,
        repo=lake_rows.repository(instance_id),
        outcome="submitted",
        detail=DETAIL,
        steps=steps,
        usage=usage,
        digest=recording.digest,
        order=(min(times).isoformat() if times else "",),
        started_at=min(times) if times else None,
    )


def _harness(trajectory: Trajectory) -> Harness:
    agent = trajectory.agent
    models = dict.fromkeys(step.model_name for step in trajectory.steps if step.model_name)
    version = "" if agent.version == "unknown" else agent.version
    return Harness(agent.name, version, agent.model_name or ", ".join(models))


def _instance(recording: Recording) -> str:
    """Return the instance that the free fields name, or else the file, or else its folder."""
    extra = recording.first.extra or {}
    for name in _NAMES_OF_INSTANCES:
        if isinstance(extra.get(name), str) and extra[name].strip():
            return str(extra[name]).strip()
    path = recording.path
    name = path.name
    while name.endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return path.parent.name if name == "trajectory" else name


def _steps(part: TrajectoryPart, first: Trajectory) -> Iterator[TracedStep]:
    """Yield the steps of a trajectory. Messages belong to the model call that follows them."""
    model = part.trajectory.agent.model_name or first.agent.model_name or ""
    steps = _own(part)
    is_measured = any(step.metrics for step in steps)
    waiting: list[dict[str, Any]] = []
    for step in steps:
        if step.source != "agent":
            waiting.append({"role": step.source, "content": _plain(step.message)})
            yield from _results(part.scope, step)
            continue
        if step.llm_call_count != 0:
            yield TracedStep(
                part.scope,
                "model",
                {"messages": waiting} if waiting else {},
                _answer(step),
                started_at=_moment(step),
                call=_call(step, model, is_measured),
            )
            waiting = []
        yield from _results(part.scope, step)


def _own(part: TrajectoryPart) -> list[Step]:
    """Return the steps of a part without those that are copied from another part.

    Copied calls with figures are of this attempt: those of a fork are credited to it.
    """
    steps = part.trajectory.steps
    copied = [step for step in steps if step.is_copied_context]
    if not part.repeats_others or any(step.metrics for step in copied):
        return steps
    return [step for step in steps if not step.is_copied_context]


def _call(step: Step, model: str, is_measured: bool) -> TracedCall | None:
    """Return the model call of a step; None if another step has its figures.

    Several steps may be of one call: without a count of their own, those without figures are no
    calls where others have figures. A copied step was paid for where it was copied from.
    """
    metrics = step.metrics or Metrics()
    if step.metrics is None and (
        step.is_copied_context or (is_measured and step.llm_call_count is None)
    ):
        return None
    extra = metrics.extra or {}
    where = f"step {step.step_id}"
    return TracedCall(
        model=step.model_name or model,
        tokens=_tokens(metrics, extra, where),
        cost_usd=traces.amount(metrics.cost_usd, f"{where}: cost_usd"),
        role=_text(extra.get("role")) or "",
        finish_reason=_text(extra.get("finish_reason")),
        latency_s=_number(extra.get("latency_s")),
        retries=retries if isinstance(retries := extra.get("retries"), int) else 0,
        count=1 if step.llm_call_count is None else step.llm_call_count,
    )


def _tokens(metrics: Metrics, extra: dict[str, Any], where: str) -> dict[str, int | None]:
    stated: dict[str, Any] = {
        "input_tokens": metrics.prompt_tokens,
        "cache_read_tokens": metrics.cached_tokens,
        "output_tokens": metrics.completion_tokens,
    }
    for column, names in _EXTRA_TOKENS.items():
        stated[column] = next((extra[name] for name in names if extra.get(name) is not None), None)
    return {name: traces.count(stated[name], f"{where}: {name}") for name in traces.TOKENS}


def _answer(step: Step) -> dict[str, Any]:
    """Return the message of an agent in the OpenAI form."""
    message: dict[str, Any] = {"role": "assistant", "content": _plain(step.message)}
    if step.reasoning_content is not None:
        message["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        message["tool_calls"] = [_asked(call) for call in step.tool_calls]
    return message


def _asked(call: ToolCall) -> dict[str, Any]:
    arguments = traces.json_text(call.arguments)
    function = {"name": call.function_name, "arguments": arguments}
    return {"id": call.tool_call_id, "type": "function", "function": function}


def _results(scope: str, step: Step) -> Iterator[TracedStep]:
    """Yield the results of a step, each as the use of the tool that was called."""
    calls = {call.tool_call_id: call for call in step.tool_calls or ()}
    for result in step.observation.results if step.observation else ():
        call = calls.get(result.source_call_id or "")
        if call is None and result.content is None:
            continue  # a mere reference to a subagent
        extra = result.extra or {}
        yield traces.used(
            scope,
            call.function_name if call else "observation",
            call.arguments if call else {},
            _content(result, scope),
            exit_code=code if isinstance(code := extra.get("exit_code"), int) else None,
            duration_s=_number(extra.get("duration_s")),
        )


def _content(result: ObservationResult, scope: str) -> Any:
    """Return what a tool returned. A result of subagents names their scopes."""
    content = _plain(result.content)
    refs = result.subagent_trajectory_ref or ()
    names = [ref.trajectory_id or Path(ref.trajectory_path or "").stem for ref in refs]
    if not names:
        return content
    return {"content": content, "subagents": [atif_files.inside(scope, name) for name in names]}


def _plain(content: str | list[ContentPart] | None) -> Any:
    if isinstance(content, list):
        return [part.model_dump(mode="json", exclude_none=True) for part in content]
    return content


def _moment(step: Step) -> datetime | None:
    """Return the time of a step. One without a zone is taken as UTC."""
    if step.timestamp is None:
        return None
    moment = datetime.fromisoformat(step.timestamp.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None
