"""A role's input as Markdown, with code and diffs verbatim."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_FENCE = re.compile(r"^`{3,}", re.MULTILINE)


def as_markdown(facts: Mapping[str, Any]) -> str:
    """Return one section for each fact that is not empty, in the given order."""
    shown = ((name, value) for name, value in facts.items() if value not in (None, "", [], {}))
    return "\n\n".join(f"## {name}\n{_section(value)}" for name, value in shown)


def _section(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(_entry(name, each) for name, each in value.items() if each)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(_item(each) for each in value)
    return _text(value)


def _entry(name: str, value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join([f"- {name}:", *(f"  {_item(each)}" for each in value)])
    text = _text(value)
    return f"- {name}: {text}" if "\n" not in text else f"- {name}:\n{text}"


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = "\n".join(_entry(name, each) for name, each in value.items() if each)
        return f"- {inner[2:]}".replace("\n- ", "\n  - ")
    return f"- {value}"


def _text(value: Any) -> str:
    """Return a value as text. Text of several lines is fenced, by a fence that it does not hold."""
    text = str(value)
    if "\n" not in text.strip("\n"):
        return text.strip("\n")
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"
