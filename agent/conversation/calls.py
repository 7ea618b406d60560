"""What a model wrote in a reply: its text, and the calls of tools that it asks for.

A reply is foreign. Each part of it may be of any type, so nothing here raises an error that a
model could cause: an odd part is read as missing, or comes with a problem that is written for the
model. Every arm reads replies here, and only here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_NESTED = 100
"""Levels of lists and objects in the arguments of a call. JSON of thousands cannot be recorded."""

_ID_CHARS = 65_536
"""Maximum length of an id. Some providers hide data for themselves in it."""


class Malformed(Exception):
    """The reply does not have the required form. The message goes back to the model."""


@dataclass(frozen=True)
class RequestedCall:
    """One entry of `tool_calls`."""

    id: str | None
    """None if there is none that a result can repeat."""
    name: str | None
    arguments: Any
    """JSON as text, if the model wrote what it should."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """The entry as it was written; empty if it is no object."""
    function: Mapping[str, Any] = field(default_factory=dict)
    """Its function as it was written; empty if it is no object."""


def asked_in(message: Mapping[str, Any]) -> list[RequestedCall]:
    """Return the calls that a reply asks for, in order."""
    calls = message.get("tool_calls")
    return [_asked(call) for call in calls] if isinstance(calls, list | tuple) else []


def _asked(call: Any) -> RequestedCall:
    entry = call if isinstance(call, dict) else {}
    function = entry.get("function")
    function = function if isinstance(function, dict) else {}
    name = function.get("name")
    return RequestedCall(
        _id(entry.get("id")),
        None if name is None else text(name),
        function.get("arguments"),
        entry,
        function,
    )


def _id(given: Any) -> str | None:
    known = text(given) if given else ""
    return known if known.isprintable() and 0 < len(known) <= _ID_CHARS else None


def text_of(message: Mapping[str, Any]) -> str:
    """Return what a reply says, or ''. Of content in parts, it is the text."""
    content = message.get("content")
    if not isinstance(content, list):
        return text(content) if content else ""
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def text(given: Any) -> str:
    """Return a value of any type as text."""
    try:
        return str(given)
    except RecursionError:
        return type(given).__name__


def json_object(given: str) -> dict[str, Any]:
    """Return the JSON object that a model wrote.

    Raises:
        Malformed: it is none, or too deep to be recorded.
    """
    try:
        content = json.loads(given)
    except ValueError as error:
        raise Malformed(f"the arguments are not JSON: {error}") from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    if not isinstance(content, dict):
        raise Malformed("the arguments are not a JSON object")
    if given.count("[") + given.count("{") > MOST_NESTED and _is_too_deep(content):
        raise Malformed(_TOO_DEEP)
    return content


_TOO_DEEP = f"the arguments are nested more than {MOST_NESTED} levels deep"


def _is_too_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MOST_NESTED):
        level = [part for each in level for part in _parts(each)]
    return bool(level)


def _parts(given: Any) -> list[Any]:
    """Return the parts of a list or object that are lists or objects."""
    parts = given.values() if isinstance(given, dict) else given
    return [part for part in parts if isinstance(part, dict | list)]
