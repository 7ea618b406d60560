"""One step of an attempt as text, which the terminal, Prefect's UI and the report render."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reports.format import count, mean, plural, usd
from reports.values import arguments_of, in_full, in_line

_FENCED_JSON = re.compile(r"^```\w*\n([{\[].*?)\n```$", re.MULTILINE | re.DOTALL)

_TOLD_ELSEWHERE = ("output", "ok", "exit_code", "tests", "passed", "failed", "errors", "command")
"""Fields of a tool's result that the summary or the output already shows."""


_DID = {
    "say": "says",
    "end": "ends it",
    "approve": "approves",
    "revise": "wants it otherwise",
    "reject": "rejects",
}
"""Words for what a message of each kind does."""


@dataclass(frozen=True)
class Origin:
    """The place and time of a step, and what kind of contact it is."""

    scope: str
    seq: int
    at: datetime | None
    kind: str
    duration_s: float | None
    replayed: bool = False
    """True if an earlier run recorded the result."""

    @property
    def place(self) -> str:
        """Scope and number, in the format of `durabench fork --at`."""
        return f"{self.scope}/{self.seq}" if self.scope else str(self.seq)


@dataclass(frozen=True)
class CallPrice:
    """The tokens and the price of a model call. None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cost_usd: float | None

    @property
    def cost(self) -> str:
        """The price as text."""
        return "cost unknown" if self.cost_usd is None else usd(self.cost_usd)


@dataclass(frozen=True)
class Said:
    """A message to the model."""

    role: str
    text: str


@dataclass(frozen=True)
class StepView:
    """One step for display."""

    origin: Origin
    name: str
    """Role or `model` for a model call, name of an action, else the kind."""
    did: str
    """Summary of the work in one line."""
    asked: str
    """The request for work in the workspace, in full; empty for a model call."""
    result: str
    """The answer or output in full."""
    outcome: str = ""
    messages: tuple[Said, ...] = ()
    """New messages to the model. Its own replies are the results of earlier steps."""
    spent: CallPrice | None = None
    """None for a step without a model call."""

    @property
    def took(self) -> str:
        """The duration as text, empty if it is unknown."""
        return "" if self.origin.duration_s is None else mean(self.origin.duration_s, " s")

    @property
    def facts(self) -> tuple[str, ...]:
        """Tokens, cost, outcome and duration as text. An unknown duration is left out."""
        spent = _spent(self.spent) if self.spent else ()
        return tuple(filter(None, [*spent, self.outcome, self.took]))


def of_row(row: dict[str, Any], call: dict[str, Any] | None) -> StepView:
    """Return a step of the lake for display. `call` is its row of `llm_calls`, if it has one."""
    origin = Origin(row["scope"], row["seq"], row["started_at"], row["kind"], row["duration_s"])
    request, result = json.loads(row["request"]), json.loads(row["result"])
    cut_off = result.get("cut_off") if isinstance(result, dict) else None
    if cut_off:
        return of_work(origin, request, None, f"cut off: {cut_off}")
    if call is not None:
        spent = CallPrice(
            call["input_tokens"],
            call["output_tokens"],
            call["cache_read_tokens"],
            call["cost_usd"],
        )
        return of_call(origin, call["role"], request, result, spent)
    if row["kind"] == "model":
        return of_call(origin, "", request, result, None)
    if row["kind"] == "command":
        outcome = of_exit(row["exit_code"], timed_out=row["timed_out"])
        return of_work(origin, request, result, outcome)
    return of_work(origin, request, result, of_action(result))


def of_call(
    origin: Origin,
    role: str,
    request: dict[str, Any],
    message: dict[str, Any],
    spent: CallPrice | None,
) -> StepView:
    """Return a model call for display."""
    used = [_format_tool_use(name, arguments) for name, arguments in _calls(message)]
    text = str(message.get("content") or "")
    did = "; ".join(used) or in_line(arguments_of(text) if text[:1] in "{[" else text)
    new = (each for each in request.get("messages") or () if each.get("role") != "assistant")
    return StepView(
        origin,
        role or "model",
        did,
        asked="",
        result=_format_reply(message),
        messages=tuple(
            Said(str(each.get("role") or each.get("type")), _format_reply(each)) for each in new
        ),
        spent=spent,
    )


def of_work(origin: Origin, request: dict[str, Any], content: Any, outcome: str) -> StepView:
    """Return a command or an action for display. `content` is its result as JSON."""
    action, rest = _parse_request(request)
    if request.get("event") == "inbox" and isinstance(content, list):
        said = [_format_message(message) for message in content]
        return StepView(
            origin, action, "; ".join(map(in_line, said)), asked="", result="\n".join(said)
        )
    return StepView(
        origin,
        action or origin.kind,
        _tool(rest) if action else in_line(request.get("command", "")),
        asked=_format_request(request),
        result=_output(content),
        outcome=outcome,
    )


def _format_message(message: dict[str, Any]) -> str:
    """Return a message of a person to the attempt."""
    text, did = message["text"].strip(), _DID[message["kind"]]
    return f"{message['sender']} {did}{f': {text}' if text else ''}"


def of_exit(code: int | None, *, timed_out: bool) -> str:
    """Return the outcome of a command in a few words."""
    return "timed out" if timed_out else "" if code is None else f"exit {code}"


def of_action(content: Any) -> str:
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
        case {"ok": True, "retries": int(retries)} if retries:
            return f"ok at try {retries + 1}"
        case {"ok": True}:
            return "ok"
        case {"test_files": [*files]}:
            return f"{len(files)} test file{'' if len(files) == 1 else 's'}"
        case {"status": str(status), "calls": {"done": [*done]}}:
            return f"{status}, {plural(len(done), 'call')} done"
        case {"refused": str(why)} if why:
            return f"refused: {in_line(why)}"
        case {"problem": str(problem)} if problem:
            return f"refused: {in_line(problem)}"
        case [int(), *_]:
            return f"results of {in_line(content)}"
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


def _calls(message: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the tools that a message calls, with their arguments."""
    functions = (call.get("function") or {} for call in message.get("tool_calls") or ())
    return [(str(each.get("name")), arguments_of(each.get("arguments"))) for each in functions]


def _format_reply(message: dict[str, Any]) -> str:
    """Return the text of a message and the calls that it makes, in full."""
    content = message.get("content") or message.get("output")
    text = _readable(content) if isinstance(content, str) else in_full(content)
    calls = [in_full({name: arguments}) for name, arguments in _calls(message)]
    return "\n".join(filter(None, [text.strip(), *calls]))


def _format_request(request: dict[str, Any]) -> str:
    """Return a request for work in the workspace; empty for a model call."""
    action, rest = _parse_request(request)
    if not action:
        return str(request.get("command", ""))
    if rest.keys() == {"tool", "arguments"}:
        return in_full({rest["tool"]: rest["arguments"]})
    return in_full({action: rest}) if rest else action


def _parse_request(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of an action or an event, which is empty for a command, and the rest."""
    rest = {name: value for name, value in request.items() if name not in ("action", "event")}
    return str(request.get("action") or request.get("event") or ""), rest


def _output(content: Any) -> str:
    """Return the result of an action: its output, and below it all other information."""
    if not isinstance(content, dict) or "output" not in content:
        return in_full(content)
    rest = {name: each for name, each in content.items() if name not in _TOLD_ELSEWHERE and each}
    return "\n".join(filter(None, [str(content["output"] or "").rstrip("\n"), in_full(rest)]))


def _tool(request: dict[str, Any]) -> str:
    """Return the arguments of an action. For a tool, leave out the words common to all tools."""
    if request.keys() == {"tool", "arguments"}:
        return _format_tool_use(request["tool"], request["arguments"])
    return in_line(request)


def _format_tool_use(tool: str, arguments: Any) -> str:
    """Return a tool with its arguments. A single argument is shown without its name."""
    alone = isinstance(arguments, dict) and len(arguments) == 1
    return f"{tool} {in_line(next(iter(arguments.values())) if alone else arguments)}".strip()


def _readable(text: str) -> str:
    """Return a text with its JSON blocks converted to readable text."""
    if text.lstrip()[:1] in ("{", "["):
        value = arguments_of(text)
        return value if isinstance(value, str) else in_full(value)

    def format_block(block: re.Match[str]) -> str:
        value = arguments_of(block[1])
        return block[0] if isinstance(value, str) else in_full(value)

    return _FENCED_JSON.sub(format_block, text)


def _spent(spent: CallPrice) -> Iterator[str]:
    cached = f" ({count(spent.cache_read_tokens)} cached)" if spent.cache_read_tokens else ""
    if spent.input_tokens is None or spent.output_tokens is None:
        yield "tokens unknown"
    else:
        yield f"{plural(spent.input_tokens, 'token')} in{cached}"
        yield f"{count(spent.output_tokens)} out"
    yield spent.cost


@dataclass(frozen=True)
class GraphStep:
    """One step of a graph."""

    place: str
    """Scope and number, as `durabench trace` shows them."""
    state: str
    """pending, executed, stale or failed."""
    label: str
    uses: tuple[str, ...]
    """Places of the earlier steps whose results it used."""


@dataclass(frozen=True)
class DiagnosisPart:
    """One part of a diagnosis."""

    title: str
    lines: tuple[str, ...]
    steps: tuple[str, ...] = ()
    """Places of the steps that it is about."""
    command: str = ""
    """A command to run next."""


@dataclass(frozen=True)
class Insight:
    """The graph of one attempt, and the findings about its failure."""

    graph: tuple[GraphStep, ...]
    findings: tuple[DiagnosisPart, ...]
    """Empty for a resolved attempt."""
