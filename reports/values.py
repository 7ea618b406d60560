"""JSON values as readable text, never with escaped newlines."""

import json
from typing import Any


def in_full(value: Any) -> str:
    """Return a value as text: names with their values, each on a line or in an indented block."""
    return "\n".join(_lines(value))


def in_line(value: Any) -> str:
    """Return a value in one line. Of a longer text, return the first line and a count of the
    rest."""
    match value:
        case None:
            return ""
        case str():
            first, *others = value.strip().split("\n")
            more = f" … (+{len(others)} {'lines' if len(others) > 1 else 'line'})" if others else ""
            return f"{' '.join(first.split())}{more}"
        case dict():
            texts = ((name, _inner(inner)) for name, inner in value.items())
            return " ".join(f"{name}={inner}" for name, inner in texts if inner)
        case list():
            return ", ".join(filter(None, map(_inner, value)))
        case _:
            return json.dumps(value)


def arguments_of(given: Any) -> Any:
    """Return the arguments of a tool call, or what was given if that is not a text of JSON."""
    try:
        return json.loads(given)
    except (TypeError, ValueError):
        return given


def _inner(value: Any) -> str:
    text = in_line(value)
    return f"({text})" if isinstance(value, dict) and text else text


def _lines(value: Any) -> list[str]:
    match value:
        case None:
            return []
        case str():
            return value.rstrip("\n").split("\n")
        case dict():
            return [
                line for name, inner in value.items() for line in _format_named(f"{name}:", inner)
            ]
        case list():
            return [line for inner in value for line in _format_named("-", inner)]
        case _:
            return [json.dumps(value)]


def _format_named(name: str, value: Any) -> list[str]:
    """Return a value next to its name if it is one line of text or a number, else below it."""
    if value is None or value == [] or value == {}:
        return [] if name != "-" else [name]
    lines = _lines(value)
    if len(lines) == 1 and not isinstance(value, dict | list):
        return [f"{name} {lines[0]}"]
    if name == "-":
        first, *others = lines
        return [f"- {first}", *(f"  {line}" for line in others)]
    return [name, *(f"  {line}" for line in lines)]
