"""Reader of mini-swe-agent's trajectories, `.traj.json` files.

There are two formats. In `mini-swe-agent-1` (package 1.x), an assistant message contains one fenced
block and its raw response, and every reply stays in the conversation. In `mini-swe-agent-1.1`
(2.x), messages have an `extra` field with the actions, the response and the charged cost. A reply
without a usable action is then recorded only inside the format error that answered it.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.errors import InvalidSpec
from agent.models.chat import essential
from agent.models.protocol import CostSource, Message, Usage
from agent.models.usage import read_usage

_TEXT_ACTION = r"```bash\s*\n(.*?)\n```"
"""Regex that extracts an action in 1.x runs that do not record their own."""


@dataclass(frozen=True)
class RecordedCall:
    """One model call, with or without a usable action in its answer."""

    message: Message
    usage: Usage
    cost_source: CostSource
    """`provider`, `litellm`, `recorded` (the file has only the figure) or `unknown`."""
    finish_reason: str | None
    created_at: datetime | None
    has_tokens: bool = True
    """True if the file has the call's token counts. Otherwise the counts in `usage` are 0."""


@dataclass(frozen=True)
class RecordedCommand:
    """One command that the agent ran. Values that the file does not have are None."""

    call_seq: int
    """Index into `Trajectory.calls` of the call that requested the command."""
    command: str
    output: str | None
    """Output as shown to the model in 1.x, complete in 2.x; the patch itself for a submission."""
    returncode: int | None


@dataclass(frozen=True)
class Trajectory:
    """One run of mini-swe-agent on one instance."""

    instance_id: str
    """Taken from the file's content, or else from its name."""
    exit_status: str
    submission: str
    """The patch, `""` for none."""
    instance_cost_usd: float
    """The package's own total."""
    api_calls: int
    """The package's own count."""
    model: str
    mini_version: str
    native_tools: bool
    action_regex: str | None
    """Regex that extracts an action, for the text formats."""
    messages: list[Message]
    calls: list[RecordedCall]
    commands: list[RecordedCommand]

    @property
    def unpriced_calls(self) -> int:
        """Calls without a cost from the provider or the package."""
        return sum(call.usage.cost_usd is None for call in self.calls)

    @property
    def unattributed_cost_usd(self) -> float:
        """The package's total minus the calls' own costs, US dollars."""
        return self.instance_cost_usd - sum(call.usage.cost_usd or 0.0 for call in self.calls)


def load(path: Path) -> Trajectory:
    """Read one trajectory file.

    Raises:
        InvalidSpec: the file is missing, is not a trajectory, or uses the Responses API.
    """
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")), path)
    except OSError as error:
        raise InvalidSpec(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InvalidSpec(f"{path}: not a mini-swe-agent trajectory ({error})") from None
    except (
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        re.error,
    ) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InvalidSpec(f"{path}: not a mini-swe-agent trajectory ({problem})") from None


def _read(data: dict[str, Any], path: Path) -> Trajectory:
    info, messages = data["info"], data["messages"]
    if not str(data.get("trajectory_format", "")).startswith("mini-swe-agent-1"):
        raise ValueError(f"trajectory_format is {data.get('trajectory_format')!r}")
    if any(message.get("object") == "response" for message in messages):
        raise ValueError("it was recorded through the Responses API, which is not supported")
    action_regex = _action_regex(data)
    return Trajectory(
        instance_id=data.get("instance_id")
        or path.name.removesuffix(".json").removesuffix(".traj"),
        exit_status=_read_text(info, "exit_status"),
        submission=_read_text(info, "submission"),
        instance_cost_usd=float(info["model_stats"]["instance_cost"]),
        api_calls=int(info["model_stats"]["api_calls"]),
        model=_config(data, "model").get("model_name") or "unknown",
        mini_version=info.get("mini_version") or "unknown",
        native_tools=action_regex is None,
        action_regex=action_regex,
        messages=messages,
        calls=[_read_call(message) for message in messages if _is_call(message)],
        commands=_read_commands(messages, action_regex),
    )


def _read_text(info: dict[str, Any], name: str) -> str:
    value = info.get(name) or ""
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def _config(data: dict[str, Any], part: str) -> dict[str, Any]:
    return (data["info"].get("config") or {}).get(part) or {}


def _action_regex(data: dict[str, Any]) -> str | None:
    """Return the regex that extracts an action, or None for a model with tool calls.

    1.x stores the regex with the agent, 2.x with the model.
    """
    declared = _config(data, "agent").get("action_regex") or _config(data, "model").get(
        "action_regex"
    )
    if declared:
        return str(declared)
    if data["trajectory_format"] != "mini-swe-agent-1":
        return None
    calls_tools = any(
        "tool_call_id" in action
        for message in data["messages"]
        for action in (message.get("extra") or {}).get("actions") or []
    )
    return None if calls_tools else _TEXT_ACTION


def _is_call(message: dict[str, Any]) -> bool:
    extra = message.get("extra") or {}
    is_rejected = extra.get("interrupt_type") == "FormatError" and "response" in extra
    return message.get("role") == "assistant" or is_rejected


def _read_call(message: dict[str, Any]) -> RecordedCall:
    extra = message.get("extra") or {}
    # The package stores the text of a response that it cannot convert to JSON.
    response = extra["response"] if isinstance(extra.get("response"), dict) else {}
    choice = (response.get("choices") or [{}])[0]
    block = response.get("usage") or {}
    # The package's charge is preferred, so that the calls add up to its own total. It charges 0 if
    # it has no price.
    cost_usd = extra.get("cost")
    source: CostSource = "litellm" if response else "recorded"
    if not cost_usd or cost_usd == block.get("cost"):
        cost_usd = block.get("cost")
        source = "unknown" if cost_usd is None else "provider"
    answer = message
    if message["role"] != "assistant":
        answer = choice.get("message") or {"content": extra.get("model_response") or ""}
    moment = extra.get("timestamp") or response.get("created")
    return RecordedCall(
        message=essential(answer),
        usage=replace(read_usage(block).usage, cost_usd=cost_usd),
        cost_source=source,
        finish_reason=choice.get("finish_reason"),
        created_at=datetime.fromtimestamp(moment, UTC) if moment else None,
        has_tokens=None not in (block.get("prompt_tokens"), block.get("completion_tokens")),
    )


def _read_commands(
    messages: list[dict[str, Any]], action_regex: str | None
) -> list[RecordedCommand]:
    commands: list[RecordedCommand] = []
    call_seq = -1
    waiting: list[int] = []  # indices of commands whose output comes next
    for message in messages:
        if _is_call(message):
            call_seq += 1
            new = [
                RecordedCommand(call_seq, text, None, None)
                for text in _actions(message, action_regex)
            ]
            waiting = list(range(len(commands), len(commands) + len(new)))
            commands += new
            continue
        is_result = message["role"] in ("user", "tool")
        if message["role"] == "exit" and len(waiting) == 1:
            # The end of the run is a result if a single command can have caused it.
            is_result = (message.get("extra") or {}).get("exit_status") == "Submitted"
        if waiting and is_result:
            index = waiting.pop(0)
            commands[index] = _with_result(commands[index], message)
    return commands


def _actions(message: dict[str, Any], action_regex: str | None) -> Iterable[str]:
    if message["role"] != "assistant":
        return []
    extra = message.get("extra") or {}
    if "actions" in extra:
        return [str(action["command"]) for action in extra["actions"]]
    if action_regex is None:
        return []
    blocks = re.findall(action_regex, message.get("content") or "", re.DOTALL)
    return [blocks[0].strip()] if len(blocks) == 1 else []


def _with_result(command: RecordedCommand, message: dict[str, Any]) -> RecordedCommand:
    extra = message.get("extra") or {}
    if "raw_output" in extra:
        return replace(command, output=extra["raw_output"], returncode=extra.get("returncode"))
    text = str(message.get("content") or "")
    if mark := re.match(r"<returncode>(-?\d+)</returncode>\n?", text):
        text, code = text[mark.end() :], int(mark.group(1))
        whole = re.fullmatch(r"<output>\n(.*)</output>\s*", text, re.DOTALL)
        return replace(command, output=whole.group(1) if whole else text, returncode=code)
    return replace(command, output=text)
