"""Values of programs as JSON."""

import json
import math
from typing import Any

_DEPTH = 100
"""Deepest level of nested values."""

_BITS = 10_000
"""Size of the largest integer that is written out."""


def as_json(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value as JSON: of an object its attributes, of other types the `repr`."""
    if depth == 0:
        return "..."
    match value:
        case int() if value.bit_length() > _BITS:
            return f"<an integer of {value.bit_length()} bits>"
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else repr(value)
        case list() | tuple():
            return [as_json(item, depth - 1) for item in value]
        case set() | frozenset():
            return sorted((as_json(item, depth - 1) for item in value), key=repr)
        case dict():
            return {
                key if isinstance(key, str) else repr(key): as_json(item, depth - 1)
                for key, item in value.items()
            }
        case _ if hasattr(value, "attributes"):  # an object of a class of the program
            return as_json(value.attributes, depth - 1)
        case _:
            return repr(value)


def as_text(value: Any, most: int) -> str:
    """Return a value as text of at most `most` characters, with a note about the rest."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[the value has {len(text)} characters: return less]"
