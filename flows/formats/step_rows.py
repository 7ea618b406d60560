"""Steps of ATIF as rows of the tables `steps` and `llm_calls`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from atif import ContentPart, Metrics, Step

from agent.models.protocol import CostSource
from eval.digests import canonical_digest
from flows.formats import attempts
from flows.formats.call_counts import count_calls
from flows.storage.files import content_json, make_readable, output_json
from flows.storage.lake import Row

OBSERVATION = "observation"
"""Name of a result that is of no tool."""

_EXTRA_TOKENS = {
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens", "reasoning_output_tokens"),
}
"""Names of counts that agents write in addition to the format's counts, by column."""

_SHELLS = frozenset(
    {
        "bash",
        "bash_command",
        "exec_command",
        "execute_bash",
        "execute_command",
        "local_shell",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "shell",
        "terminal",
    }
)
"""Names of tools that run a command, in lower case."""

_COMMANDS = ("command", "cmd", "keystrokes")
"""Names of the argument that holds the command."""


def command_of(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the command that a tool runs; None if it runs none."""
    if name.lower() not in _SHELLS:
        return None
    command = next((arguments[key] for key in _COMMANDS if key in arguments), None)
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return str(command[-1]) if command[1:2] in (["-c"], ["-lc"]) else " ".join(command)
    return command if isinstance(command, str) else None


class _Place(NamedTuple):
    """The content of a row."""

    step: Step
    kind: Literal["model", "command", "action"]
    request: Row
    content: Any
    """An assistant message, the output of a command, or what an action returned."""
    figures: Mapping[str, Any]
    """Free fields of a result, or of the metrics of a call."""
    started_at: datetime | None


def rows(lines: Mapping[str, Sequence[Step]], cell: Row) -> Iterator[Row]:
    """Yield the rows of `steps`. Messages belong to the model call that follows them."""
    for scope, steps in lines.items():
        for seq, place in enumerate(_places(scope, steps)):
            is_command = place.kind == "command"
            output = str(place.content or "")
            exit_code = place.figures.get("exit_code")
            yield {
                **cell,
                "scope": scope,
                "seq": seq,
                "kind": place.kind,
                "request": make_readable(json.dumps(place.request, ensure_ascii=False)),
                "request_digest": canonical_digest(place.request),
                "result": output_json(output) if is_command else content_json(place.content),
                "exit_code": exit_code if isinstance(exit_code, int) else None,
                "output_bytes": len(output.encode("utf-8", "replace")) if is_command else None,
                "timed_out": place.figures.get("timed_out") is True,
                "started_at": place.started_at,
                "duration_s": _number(place.figures.get("duration_s")),
            }


def calls(lines: Mapping[str, Sequence[Step]], model: str) -> list[tuple[Row, int]]:
    """Return the rows of `llm_calls` without their cell, each with the number of calls it counts.

    Raises:
        ValueError: a figure cannot be used.
    """
    counted_rows = []
    for scope, steps in lines.items():
        is_measured = any(step.metrics for step in steps)
        for seq, (step, kind, *_) in enumerate(_places(scope, steps)):
            number = count_calls(step, is_measured=is_measured) if kind == "model" else 0
            if number:
                row = {"scope": scope, "seq": seq, **call_row(step, model)}
                counted_rows.append((row, number))
    return counted_rows


def call_row(step: Step, model: str) -> Row:
    """Return the columns of a call that a step states. `model` is the usual one.

    Raises:
        ValueError: a figure cannot be used.
    """
    metrics = step.metrics or Metrics()
    extra, where = metrics.extra or {}, f"step {step.step_id}"
    stated: dict[str, Any] = {
        "input_tokens": metrics.prompt_tokens,
        "cache_read_tokens": metrics.cached_tokens,
        "output_tokens": metrics.completion_tokens,
    }
    for column, names in _EXTRA_TOKENS.items():
        stated[column] = next((extra[name] for name in names if extra.get(name) is not None), None)
    source = extra.get("cost_source")
    if source not in get_args(CostSource):
        source = "unknown" if metrics.cost_usd is None else "recorded"
    return {
        "role": _text(extra.get("role")) or "",
        "model": step.model_name or model,
        **{name: attempts.count(stated[name], f"{where}: {name}") for name in attempts.TOKENS},
        "cost_usd": attempts.amount(metrics.cost_usd, f"{where}: cost_usd"),
        "cost_source": source,
        "finish_reason": _text(extra.get("finish_reason")),
        "flaws": None,
        "latency_s": _number(extra.get("latency_s")),
        "retries": retries if isinstance(retries := extra.get("retries"), int) else 0,
        "started_at": moment(step.timestamp),
    }


def _places(scope: str, steps: Iterable[Step]) -> Iterator[_Place]:
    """Yield the model calls and the uses of tools of one scope."""
    waiting: list[dict[str, Any]] = []
    for step in steps:
        if step.source != "agent":
            waiting.append({"role": step.source, "content": _plain(step.message)})
        elif step.llm_call_count != 0:
            request = {"messages": waiting} if waiting else {}
            waiting = []
            extra = (step.metrics and step.metrics.extra) or {}
            figures = {"duration_s": extra.get("latency_s")}
            at = moment(step.timestamp)
            yield _Place(step, "model", request, _to_message(step), figures, at)
        yield from _find_tool_uses(scope, step)


def _to_message(step: Step) -> dict[str, Any]:
    """Return the message of an agent in the OpenAI form."""
    message: dict[str, Any] = {"role": "assistant", "content": _plain(step.message)}
    if step.reasoning_content is not None:
        message["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        message["tool_calls"] = []
    for call in step.tool_calls or ():
        arguments = json.dumps(call.arguments, ensure_ascii=False)  # as models write them
        function = {"name": call.function_name, "arguments": arguments}
        message["tool_calls"].append(
            {"id": call.tool_call_id, "type": "function", "function": function}
        )
    return message


def _find_tool_uses(scope: str, step: Step) -> Iterator[_Place]:
    """Yield the results of a step, each as the use of the tool that was called."""
    calls = {call.tool_call_id: call for call in step.tool_calls or ()}
    for result in step.observation.results if step.observation else ():
        call = calls.get(result.source_call_id or "")
        if call is None and result.content is None:
            continue  # a mere reference to a subagent
        name, arguments = (call.function_name, call.arguments) if call else (OBSERVATION, {})
        content, figures = _plain(result.content), result.extra or {}
        refs = result.subagent_trajectory_ref or ()
        if names := [ref.trajectory_id or Path(ref.trajectory_path or "").stem for ref in refs]:
            content = {"content": content, "subagents": [inside(scope, name) for name in names]}
        at = figures.get("started_at")
        place = (content, figures, moment(at) if isinstance(at, str) else None)
        command = command_of(name, arguments)
        if command is not None and isinstance(content, str | None):
            yield _Place(step, "command", {"command": command}, *place)
        else:
            yield _Place(step, "action", {"action": name, "arguments": dict(arguments)}, *place)


def inside(scope: str, name: str) -> str:
    """Return the scope of a subagent of a scope. Its name may be its whole path."""
    is_whole = not scope or name.startswith(f"{scope}/")
    return name if is_whole else f"{scope}/{name}"


def outside(scope: str, scopes: Iterable[str]) -> str:
    """Return the innermost of the scopes that contain a scope."""
    around = (other for other in scopes if scope.startswith(f"{other}/"))
    return max(around, key=len, default="")


def moment(text: str | None) -> datetime | None:
    """Return a time; None if the text does not contain one. UTC is the default zone."""
    try:
        time = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _plain(content: str | list[ContentPart] | None) -> Any:
    if isinstance(content, list):
        return [part.model_dump(mode="json", exclude_none=True) for part in content]
    return content


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None
