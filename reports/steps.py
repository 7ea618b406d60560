"""One step of an attempt as text, which the terminal, Prefect's UI and the report render."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reports.format import count, mean, plural, usd
from reports.values import arguments_of, in_full, in_line

_FENCED_JSON = re.compile(r"^```\w*\n([{\[].*?)\n```$", re.MULTILINE | re.DOTALL)

_SHOWN_ELSEWHERE = ("output", "ok", "exit_code", "tests", "passed", "failed", "errors", "command")
"""Fields of a tool's result that the summary or the output already shows."""


_DID = {
    "say": "says",
    "end": "ends it",
    "approve": "approves",
    "revise": "wants it otherwise",
    "reject": "rejects",
}
"""Verbs for messages of each kind."""


FLAWS = {
    "empty": "empty",
    "cut_off": "cut off",
    "callless": "without a call",
    "repeated": "repeated",
}
"""Words for the flaws of a reply."""

FLAW_COLUMNS = (*(f"{flaw}_replies" for flaw in FLAWS), "refused_requests")
"""Columns of `attempts` with the number of replies by flaw, and of refused requests."""


@dataclass(frozen=True)
class Origin:
    """The place, time and kind of a step."""

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
        facts: list[str] = []
        if spent := self.spent:
            facts = ["tokens unknown"]
            if spent.input_tokens is not None and spent.output_tokens is not None:
                read = spent.cache_read_tokens
                cached = f" ({count(read)} cached)" if read else ""
                tokens = f"{plural(spent.input_tokens, 'token')} in{cached}"
                facts = [tokens, f"{count(spent.output_tokens)} out"]
            facts.append(spent.cost)
        return tuple(filter(None, [*facts, self.outcome, self.took]))


def of_row(row: dict[str, Any], call: dict[str, Any] | None) -> StepView:
    """Return a step of the lake for display. `call` is its row of `llm_calls`, if it has one."""
    origin = Origin(row["scope"], row["seq"], row["started_at"], row["kind"], row["duration_s"])
    request, result = json.loads(row["request"]), json.loads(row["result"])
    cut_off = result.get("cut_off") if isinstance(result, dict) else None
    if cut_off:
        return of_work(origin, request, None, f"cut off: {cut_off}")
    if call is not None:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cost_usd")
        spent, flaws = CallPrice(*(call[name] for name in names)), call.get("flaws")
        if flaws is None:
            flaws = find_cut_off(call["finish_reason"])
        return of_call(origin, call["role"], request, result, spent, flaws)
    if row["kind"] == "model":
        return of_call(origin, "", request, result, None)
    if row["kind"] == "command":
        outcome = of_exit(row["exit_code"], timed_out=row["timed_out"])
        return of_work(origin, request, result, outcome)
    return of_work(origin, request, result, of_action(result))


def describe_flaws(attempt: Mapping[str, Any]) -> str:
    """Return the flaws of an attempt's replies and its refused requests, by its columns.

    Numbers that are unknown, as in older files, or 0 are left out. Return '' if nothing is left.
    """
    numbers = ((attempt.get(f"{flaw}_replies"), words) for flaw, words in FLAWS.items())
    flaws = [f"{count(number)} {words}" for number, words in numbers if number]
    if flaws:
        number, _, words = flaws[0].partition(" ")
        flaws[0] = f"{number} of {plural(attempt['model_calls'], 'reply', 'replies')} {words}"
    refused = attempt.get("refused_requests")
    refusals = f"{plural(refused, 'request')} refused" if refused else ""
    return "; ".join(filter(None, [", ".join(flaws), refusals]))


def list_remedies(attempt: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each setting of the model that half of the replies ask for."""
    half = max(1, attempt.get("model_calls") or 0) / 2
    remedies = {
        "callless": "Half of the replies or more had no call: try native_tools: false.",
        "cut_off": "Half of the replies or more were cut off: raise max_tokens of the model.",
    }
    return [
        remedy for flaw, remedy in remedies.items() if (attempt.get(f"{flaw}_replies") or 0) >= half
    ]


def find_cut_off(finish_reason: str | None) -> list[str]:
    """Return the flaw that the reason for the end of a reply shows."""
    return ["cut_off"] if finish_reason in ("length", "max_tokens") else []


def of_call(
    origin: Origin,
    role: str,
    request: dict[str, Any],
    message: dict[str, Any],
    spent: CallPrice | None,
    flaws: Collection[str] = (),
) -> StepView:
    """Return a model call for display, with the known `flaws` of its reply."""
    uses = [_format_tool_use(name, arguments) for name, arguments in _calls(message)]
    text = str(message.get("content") or "")
    did = "; ".join(uses) or in_line(arguments_of(text) if text[:1] in "{[" else text)
    did = did.strip() or "(empty)"
    messages = (new for new in request.get("messages") or () if new.get("role") != "assistant")
    return StepView(
        origin,
        role or "model",
        did,
        asked="",
        result=_format_reply(message),
        # The summary shows that a reply is empty.
        outcome=", ".join(FLAWS[flaw] for flaw in FLAWS if flaw in flaws and flaw != "empty"),
        messages=tuple(
            Said(str(new.get("role") or new.get("type")), _format_reply(new)) for new in messages
        ),
        spent=spent,
    )


def of_work(origin: Origin, request: dict[str, Any], content: Any, outcome: str) -> StepView:
    """Return a command or an action for display. `content` is its result as JSON."""
    rest = {name: value for name, value in request.items() if name not in ("action", "event")}
    action = str(request.get("action") or request.get("event") or "")
    if request.get("event") == "inbox" and isinstance(content, list):
        texts = []
        for message in content:
            text = message["text"].strip()
            did = f"{message['sender']} {_DID[message['kind']]}"
            texts.append(f"{did}: {text}" if text else did)
        line = "; ".join(map(in_line, texts))
        return StepView(origin, action, line, asked="", result="\n".join(texts))
    if not action:
        command = request.get("command", "")
        did, full = in_line(command), str(command)
    elif rest.keys() == {"tool", "arguments"}:
        # The words common to all tools are left out.
        did = _format_tool_use(rest["tool"], rest["arguments"])
        full = in_full({rest["tool"]: rest["arguments"]})
    else:
        did, full = in_line(rest), in_full({action: rest}) if rest else action
    result = in_full(content)
    if isinstance(content, dict) and "output" in content:
        others = {name: v for name, v in content.items() if name not in _SHOWN_ELSEWHERE and v}
        output = str(content["output"] or "").rstrip("\n")
        result = "\n".join(filter(None, [output, in_full(others)]))
    return StepView(origin, action or origin.kind, did, asked=full, result=result, outcome=outcome)


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
    return [(str(call.get("name")), arguments_of(call.get("arguments"))) for call in functions]


def _format_reply(message: dict[str, Any]) -> str:
    """Return the text of a message and the calls that it makes, in full."""
    content = message.get("content") or message.get("output")
    text = _readable(content) if isinstance(content, str) else in_full(content)
    calls = [in_full({name: arguments}) for name, arguments in _calls(message)]
    return "\n".join(filter(None, [text.strip(), *calls]))


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
