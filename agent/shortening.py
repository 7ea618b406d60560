"""Long texts without their middle, and texts without the style of a terminal."""

import re

_STYLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Sequences by which a program colours its output, or moves the cursor."""


def strip_style(text: str) -> str:
    """Return a text without the sequences that colour it or move the cursor."""
    return _STYLE.sub("", text)


def shorten_middle(text: str, max_chars: int, *, whole_lines: bool = False) -> str:
    """Return the text if it fits, else its head and tail, with the size of the rest between them.

    With `whole_lines`, both end at the end of a line, unless they are part of a single one.
    """
    if len(text) <= max_chars:
        return text
    half = max(0, max_chars // 2)
    head, tail = text[:half], text[len(text) - half :]
    if not whole_lines:
        return f"{head}\n[... {len(text) - 2 * half} characters ...]\n{tail}"
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = text[len(head) : len(text) - len(tail)]
    gap = f"[... {len(left_out)} characters in {len(left_out.splitlines())} lines left out ...]"
    return f"{head.rstrip(chr(10))}\n{gap}\n{tail}"
