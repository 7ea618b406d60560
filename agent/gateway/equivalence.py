"""The form of a request in which a restarted program repeats it.

Calls are numbered, because some programs invent their ids. The results of one turn are sorted by
the calls they answer. What differs from run to run is masked in them and in the other texts of the
program. What the model wrote is compared exactly.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from agent.errors import RequestRefused
from agent.gateway.masks import mask, prints_in_any_order
from agent.models.requests import check_depth
from agent.session.steps import canonical, digest

TALK = ("messages", "input", "contents")
"""The fields that hold the conversation, in any dialect."""

_NOT_COMPARED = (
    "cache_control", "metadata", "user", "prompt_cache_key", "prompt_cache_retention",
    "safety_identifier", "client_metadata", "store",
)  # fmt: skip
"""Fields for the provider's accounts and caches. The model does not read them."""

_CALL_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})

_COMMANDS = ("command", "cmd", "commands", "script")


@dataclass(frozen=True)
class FirstDifference:
    """The first difference of two requests."""

    place: str
    """A field, or the number of a message."""
    before: str
    after: str


@dataclass(frozen=True)
class Equivalent:
    """A request as it is compared."""

    pieces: tuple[tuple[str, str], ...]
    """Place and canonical JSON of each part."""
    removed: tuple[tuple[str, str], ...]
    """Kind and value of each part that is not compared."""

    @cached_property
    def digest(self) -> str:
        """The digest that equivalent requests have in common."""
        return digest(canonical({"pieces": [text for _, text in self.pieces]}))

    def list_loosened(self, other: "Equivalent") -> list[str]:
        """Return the kinds of values that differ between two equivalent requests."""
        kinds = {kind for kind, _ in (*self.removed, *other.removed)}
        return sorted(
            kind
            for kind in kinds
            if [v for k, v in self.removed if k == kind]
            != [v for k, v in other.removed if k == kind]
        )

    def count_equal(self, later: "Equivalent") -> int:
        """Return the number of equal parts before the first difference."""
        return count_common(self.pieces, later.pieces)

    def find_difference(self, later: "Equivalent") -> FirstDifference | None:
        """Return the first difference to a later request, or None."""
        at = self.count_equal(later)
        if at < min(len(self.pieces), len(later.pieces)):
            (place, before), (_, after) = self.pieces[at], later.pieces[at]
            return FirstDifference(place, *_around_difference(before, after))
        longer = (self.pieces, later.pieces)[len(later.pieces) > len(self.pieces)]
        rest = longer[at:]
        if not rest:
            return None
        place, text = rest[0]
        shown = text[:_SHOWN]
        return FirstDifference(place, *(("", shown) if longer is later.pieces else (shown, "")))


def count_common(before: Sequence[object], after: Sequence[object]) -> int:
    """Return the number of equal values, or characters, before the first difference."""
    pairs = zip(before, after, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))


_SHOWN = 80
_CONTEXT = 30


def _around_difference(before: str, after: str) -> tuple[str, str]:
    """Return the places of two texts that differ first, with the text around them."""
    start = max(0, count_common(before, after) - _CONTEXT)
    return before[start : start + _SHOWN], after[start : start + _SHOWN]


def compare_form(asked: Mapping[str, Any], body: Mapping[str, Any], moment: datetime) -> Equivalent:
    """Return the form in which a request is compared. `asked` is compared exactly.

    `moment` is when the request was made.
    """
    pieces, removed = [("the request", canonical(dict(asked)).decode())], []
    for name in sorted(body.keys() - set(TALK)):
        if name in _NOT_COMPARED:
            removed.append((f"field {name}", json.dumps(body[name], sort_keys=True)))
            continue
        value = body[name]
        if name == "tools" and isinstance(value, list):
            value = sorted(value, key=lambda tool: json.dumps(tool, sort_keys=True))
        pieces.append((name, _mask_value(value, moment, removed)))
    pieces += _compare_talk(body, moment, removed)
    return Equivalent(tuple(pieces), tuple(removed))


@dataclass
class _Part:
    """One part of the conversation."""

    place: str
    is_model: bool
    value: Any
    call: str | None = None
    """The call that a result answers."""


def _compare_talk(
    body: Mapping[str, Any], moment: datetime, removed: list[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the parts of the conversation in the order of the calls."""
    parts = list(_list_parts(body))
    calls: dict[str, tuple[int, str, list[str]]] = {}
    for part in parts:
        if part.is_model:
            for call_id, name, arguments in _list_calls(part.value):
                calls.setdefault(call_id, (len(calls), name, list(_list_commands(arguments))))
    at = 0
    while at < len(parts):
        end = at
        while end < len(parts) and parts[end].is_model == parts[at].is_model:
            end += 1
        turn = parts[at:end]
        if not parts[at].is_model:
            order = sorted(
                turn, key=lambda part: calls[part.call][0] if part.call in calls else len(calls)
            )
            if order != turn:
                removed.append(("order of results", ",".join(part.place for part in turn)))
            turn = order
        for part in turn:
            yield part.place, _compare_part(part, calls, moment, removed)
        at = end


def _compare_part(
    part: _Part,
    calls: Mapping[str, tuple[int, str, list[str]]],
    moment: datetime,
    removed: list[tuple[str, str]],
) -> str:
    value = _number_calls(part.value, calls, removed)
    if part.is_model:
        return canonical({"model": _without_marks(value)}).decode()
    _, name, commands = calls.get(part.call or "", (0, "", []))
    is_sorted = bool(part.call) and prints_in_any_order(name, commands)
    return _mask_value(value, moment, removed, is_sorted=is_sorted)


def _number_calls(
    value: Any,
    calls: Mapping[str, tuple[int, str, list[str]]],
    removed: list[tuple[str, str]],
) -> Any:
    """Return a part with the numbers of its calls instead of their ids."""
    if isinstance(value, list):
        return [_number_calls(item, calls, removed) for item in value]
    if not isinstance(value, dict):
        return value
    numbered = {}
    for name, item in value.items():
        if name in _CALL_IDS and isinstance(item, str) and item in calls:
            removed.append(("call id", item))
            item = f"<call {calls[item][0]}>"
        numbered[name] = _number_calls(item, calls, removed)
    return numbered


def _mask_value(
    value: Any, moment: datetime, removed: list[tuple[str, str]], *, is_sorted: bool = False
) -> str:
    """Return a value as canonical JSON, and add what is not compared."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            inner = _parse(value)
            return mask_text(value) if inner is None else walk(inner)
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, dict):
            return {name: walk_field(name, item) for name, item in value.items()}
        return value

    def walk_field(name: str, value: Any) -> Any:
        if isinstance(value, int | float):  # such as `"duration_ms": 12`
            masked = mask(f"{name}: {value}", moment)
            removed.extend(masked.removed)
            return masked.text if masked.removed else value
        return walk(value)

    def mask_text(text: str) -> str:
        masked = mask(text, moment)
        removed.extend(masked.removed)
        if not is_sorted:
            return masked.text
        lines = masked.text.splitlines()
        if lines != sorted(lines):
            removed.append(("order of lines", digest(masked.text.encode("utf-8", "replace"))))
        return "\n".join(sorted(lines))

    return canonical({"program": walk(_without_marks(value))}).decode("utf-8", "surrogatepass")


def _parse(text: str) -> Any:
    """Return the object or list of a result that is JSON and not nested too deeply, or None."""
    if not text.startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
        check_depth(value)
    except (ValueError, RecursionError, RequestRefused):
        return None
    return value


def _without_marks(value: Any) -> Any:
    """Return a value without the marks of the provider's cache."""
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if isinstance(value, dict):
        return {
            name: _without_marks(item) for name, item in value.items() if name != "cache_control"
        }
    return value


def read_talk(body: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a request, in any dialect."""
    talk: Any = next((body[name] for name in TALK if name in body), [])
    return talk if isinstance(talk, list) else [{"role": "user", "content": talk}]


def plain_message(message: Any) -> Any:
    """Return a message without marks of the provider's cache, in one of its equal spellings."""
    message = _without_marks(message)
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return {**message, "content": [{"type": "text", "text": message["content"]}]}
    return message


def _list_parts(body: Mapping[str, Any]) -> Iterator[_Part]:
    for number, item in enumerate(read_talk(body)):
        if not isinstance(item, dict):
            yield _Part(f"message {number}", False, item)
            continue
        item = {name: value for name, value in plain_message(item).items() if name != "id"}
        kind, role = str(item.get("type") or ""), item.get("role")
        place = f"message {number}"
        if role == "tool":
            yield _Part(place, False, item, item.get("tool_call_id"))
        elif kind.endswith("_output"):
            yield _Part(place, False, item, item.get("call_id"))
        elif role in ("assistant", "model") or (kind and kind != "message"):
            yield _Part(place, True, item)
        else:
            inner = "parts" if "parts" in item else "content"
            for part in item.get(inner) or []:
                result = part.get("functionResponse") if isinstance(part, dict) else None
                call = result.get("id") or result.get("name") if isinstance(result, dict) else None
                if call is None and isinstance(part, dict):
                    call = part.get("tool_use_id")
                yield _Part(place, False, {"role": role, "part": part}, call)


def _list_calls(item: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield identity, tool and arguments of the calls in a message of the model."""
    if "call_id" in item:
        arguments = item.get("arguments", item.get("input", item.get("action")))
        yield str(item["call_id"]), str(item.get("name") or item.get("type")), arguments
    for call in item.get("tool_calls") or ():
        function = call.get("function") or {}
        yield str(call.get("id")), str(function.get("name")), function.get("arguments")
    for part in (*_parts(item, "content"), *_parts(item, "parts")):
        if part.get("type") == "tool_use":
            yield str(part.get("id")), str(part.get("name")), part.get("input")
        if isinstance(call := part.get("functionCall"), dict):
            yield str(call.get("id") or call.get("name")), str(call.get("name")), call.get("args")


def _parts(item: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _list_commands(arguments: Any) -> Iterator[str]:
    """Yield the shell commands among the arguments of a call."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return
    for name in _COMMANDS if isinstance(arguments, dict) else ():
        value = arguments.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list) and all(isinstance(word, str) for word in value):
            yield value[-1] if value[:1] == ["bash"] else "\n".join(value)
