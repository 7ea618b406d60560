"""A step of an attempt as text: a summary line, and the full input and output below it."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.models.protocol import Message, ModelReply
from agent.session.steps import ActionResult, CutOff, Step
from agent.workspaces.protocol import CommandResult
from flows.display.terminal import fitted
from flows.display.text import arguments_of, in_full, in_line

_FENCED_JSON = re.compile(r"^```\w*\n([{\[].*?)\n```$", re.MULTILINE | re.DOTALL)

_TOLD_ELSEWHERE = ("output", "ok", "exit_code", "tests", "passed", "failed", "errors", "command")
"""Fields of a tool's result that the line or the output already shows."""

_LEAST_SUMMARY, _LEAST_PLACE = 20, 8
"""Minimum columns for a step's summary and for its location, on any terminal width."""


@dataclass(frozen=True)
class Shown:
    """One step for display."""

    scope: str
    seq: int
    at: datetime | None
    name: str
    """Role or `model` for a model call, name of an action, else the kind."""
    did: str
    """Summary of the work in one line."""
    asked: str
    """The request for work in the workspace, in full; empty for a model call."""
    result: str
    """The answer or output in full."""
    outcome: str = ""
    tokens: tuple[int, int] | None = None
    """Input and output tokens of a model call."""
    cost_usd: float | None = 0.0
    """None if the price of a call is unknown."""
    duration_s: float | None = None

    @property
    def place(self) -> str:
        """Scope and number, in the format of `durabench fork --at`."""
        return f"{self.scope}/{self.seq}" if self.scope else str(self.seq)


def of_step(step: Step) -> Shown:
    """Return a step of a session for display."""
    head = (step.scope, step.seq, step.started_at)
    content: Any
    match step.result:
        case ModelReply(message=message, usage=usage):
            tokens = (usage.input_tokens, usage.output_tokens)
            role = step.request.get("role", "")
            return _call(*head, role, message, tokens, usage.cost_usd, step.duration_s)
        case CommandResult(output=output, exit_code=code, timed_out=timed_out):
            content, outcome = output, _exit(code, timed_out)
        case ActionResult(content=content):
            outcome = _outcome(content)
        case CutOff(cut_off=what):
            content, outcome = None, f"cut off: {what}"
    return _work(*head, step.kind, step.request, content, outcome, step.duration_s)


def of_row(row: dict[str, Any], call: dict[str, Any] | None) -> Shown:
    """Return a step of the lake for display. `call` is its row of `llm_calls`, if it has one."""
    head = (row["scope"], row["seq"], row["started_at"])
    result = json.loads(row["result"])
    if call is not None:
        tokens = (call["input_tokens"], call["output_tokens"])
        return _call(*head, call["role"], result, tokens, call["cost_usd"], row["duration_s"])
    cut_off = result.get("cut_off") if isinstance(result, dict) else None
    if cut_off:
        content, outcome = None, f"cut off: {cut_off}"
    elif row["kind"] == "command":
        content, outcome = result, _exit(row["exit_code"], row["timed_out"])
    else:
        content, outcome = result, _outcome(result)
    request = json.loads(row["request"])
    return _work(*head, row["kind"], request, content, outcome, row["duration_s"])


def line(shown: Shown, width: int) -> str:
    """Return a step in one line of at most `width` columns: the time, and then its `entry`."""
    clock = f"{shown.at.astimezone():%H:%M:%S}" if shown.at else "--:--:--"
    return fitted(f"{clock}  {entry(shown, width - len(clock) - 2)}", width)


def entry(shown: Shown, width: int) -> str:
    """Return a step in one line of at most `width` columns, without its time.

    The line has location, name, summary, outcome, tokens, cost and duration. If it does not fit,
    the summary is cut first, then the beginning of the location, and the outcome and numbers last.
    """
    right = "  ".join(_numbers(shown, width))
    room = width - len(f"{shown.name:<7}    {right}")
    place = _ending(shown.place, max(room - _LEAST_SUMMARY, _LEAST_PLACE))
    did = fitted(shown.did, max(room - max(len(place), 4), 0))
    return fitted(f"{place:<4} {shown.name:<7} {did}  {right}".rstrip(), width)


def _ending(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


def block(shown: Shown) -> str:
    """Return the full input and output of a step, to be printed below its line."""
    parts = [(shown.asked, "$ "), (shown.result, "  ")]
    return "\n".join(_indented(text, first) for text, first in parts if text)


def said(message: Message) -> str:
    """Return the text of a message and the calls that it makes, in full."""
    content = message.get("content")
    text = _readable(content) if isinstance(content, str) else in_full(content)
    calls = []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        calls.append(in_full({function["name"]: arguments_of(function["arguments"])}))
    return "\n".join(filter(None, [text.strip(), *calls]))


def asked_in_line(request: dict[str, Any]) -> str:
    """Return a request for work in the workspace in one line; empty for a model call."""
    if "action" not in request:
        return in_line(request.get("command", ""))
    rest = {name: value for name, value in request.items() if name != "action"}
    return f"{request['action']} {in_line(rest)}".strip()


def asked_in_full(request: dict[str, Any]) -> str:
    """Return a request for work in the workspace; empty for a model call."""
    if "action" not in request:
        return str(request.get("command", ""))
    rest = {name: value for name, value in request.items() if name != "action"}
    if rest.keys() == {"tool", "arguments"}:
        return in_full({rest["tool"]: rest["arguments"]})
    return in_full({request["action"]: rest}) if rest else str(request["action"])


def output_of(content: Any) -> str:
    """Return the result of an action: its output, and below it all other information."""
    if not isinstance(content, dict) or "output" not in content:
        return in_full(content)
    rest = {name: each for name, each in content.items() if name not in _TOLD_ELSEWHERE and each}
    return "\n".join(filter(None, [str(content["output"] or "").rstrip("\n"), in_full(rest)]))


def _call(
    scope: str,
    seq: int,
    at: datetime | None,
    role: str,
    message: Message,
    tokens: tuple[int, int],
    cost_usd: float | None,
    duration_s: float | None,
) -> Shown:
    calls = [call["function"] for call in message.get("tool_calls") or []]
    used = [_used(each["name"], arguments_of(each["arguments"])) for each in calls]
    text = str(message.get("content") or "")
    did = "; ".join(used) or in_line(arguments_of(text) if text[:1] in "{[" else text)
    return Shown(
        scope,
        seq,
        at,
        role or "model",
        did,
        "",
        said(message),
        tokens=tokens,
        cost_usd=cost_usd,
        duration_s=duration_s,
    )


def _work(
    scope: str,
    seq: int,
    at: datetime | None,
    kind: str,
    request: dict[str, Any],
    content: Any,
    outcome: str,
    duration_s: float | None,
) -> Shown:
    action = request.get("action")
    rest = {name: value for name, value in request.items() if name != "action"}
    return Shown(
        scope,
        seq,
        at,
        str(action or kind),
        _tool(rest) if action else in_line(request.get("command", "")),
        asked_in_full(request),
        output_of(content),
        outcome,
        duration_s=duration_s,
    )


def _tool(request: dict[str, Any]) -> str:
    """Return the arguments of an action. For a tool, leave out the words common to all tools."""
    if request.keys() == {"tool", "arguments"}:
        return _used(request["tool"], request["arguments"])
    return in_line(request)


def _used(tool: str, arguments: Any) -> str:
    """Return a tool with its arguments. A single argument is shown without its name."""
    alone = isinstance(arguments, dict) and len(arguments) == 1
    return f"{tool} {in_line(next(iter(arguments.values())) if alone else arguments)}".strip()


def _numbers(shown: Shown, width: int) -> list[str]:
    from reports.format import usd

    parts = [fitted(shown.outcome, max(width // 3, 1))] if shown.outcome else []
    if shown.tokens is not None:
        parts.append("+".join(_short(count) for count in shown.tokens) + " tok")
        parts.append("cost unknown" if shown.cost_usd is None else usd(shown.cost_usd))
    if shown.duration_s is not None:
        parts.append(f"{shown.duration_s:.1f} s")
    return parts


def _short(count: int | None) -> str:
    if count is None:
        return "?"
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


def _exit(code: int | None, timed_out: bool) -> str:
    return "timed out" if timed_out else "" if code is None else f"exit {code}"


def _outcome(content: Any) -> str:
    """Return the outcome of an action in a few words."""
    match content:
        case {"passed": list(), "failed": list(), "errors": list()}:
            return _counts(content)
        case {"tests": {"passed": list()} as tests}:
            return _counts(tests)
        case {"ok": bool(ok), "exit_code": int(code)} if not ok or code:
            return f"exit {code}"
        case {"ok": False}:
            return "refused"
        case {"changed": [*paths]} if paths:
            return f"changed {in_line(paths)}"
        case {"ok": True}:
            return "ok"
        case {"test_files": [*files]}:
            return f"{len(files)} test file{'' if len(files) == 1 else 's'}"
        case list():
            return f"{len(content)} found"
        case str() if content:
            lines = len(content.rstrip().split("\n"))
            return f"{lines} line{'' if lines == 1 else 's'}"
        case _:
            return ""


def _counts(tests: dict[str, Any]) -> str:
    numbers = ", ".join(
        f"{len(tests[name])} {name}"
        for name in ("passed", "failed", "errors")
        if tests[name] or name == "passed"
    )
    return f"{numbers}, exit {tests['exit_code']}"


def _readable(text: str) -> str:
    """Return a text with its JSON blocks converted to readable text."""
    if text.lstrip()[:1] in ("{", "["):
        value = arguments_of(text)
        return value if isinstance(value, str) else in_full(value)

    def shown(block: re.Match[str]) -> str:
        value = arguments_of(block[1])
        return block[0] if isinstance(value, str) else in_full(value)

    return _FENCED_JSON.sub(shown, text)


def _indented(text: str, first: str) -> str:
    lines = text.rstrip("\n").split("\n")
    return "\n".join((first if index == 0 else "  ") + each for index, each in enumerate(lines))
