"""Long texts without their middle, and texts without the style of a terminal."""

import re

_STYLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Sequences by which a program colours its output, or moves the cursor."""


def strip_style(text: str) -> str:
    """Return a text without the sequences that colour it or move the cursor."""
    return _STYLE.sub("", text)


def shorten_middle(text: str, max_chars: int) -> str:
    """Return the text if it fits, else its head and tail, with the size of the rest between."""
    if len(text) <= max_chars:
        return text
    half = max(0, max_chars // 2)
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[len(text) - half :]}"


def head_and_tail(text: str, max_chars: int) -> str:
    """Return the text if it fits, else whole lines of its head and tail.

    The size of the omitted part is stated between them. A single line that is too long is cut.
    """
    if len(text) <= max_chars:
        return text
    half = max(0, max_chars // 2)
    head, tail = text[:half], text[len(text) - half :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = text[len(head) : len(text) - len(tail)]
    gap = f"[... {len(left_out)} characters in {len(left_out.splitlines())} lines left out ...]"
    return f"{head.rstrip(chr(10))}\n{gap}\n{tail}"
