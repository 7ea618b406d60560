"""Text of strangers on terminals, pages, in Markdown and in titles, where it must not act.

Characters that would act on a terminal or a page, or hide there, become visible.
"""

import re
import unicodedata
from functools import lru_cache

_NOT_PLAIN = re.compile(r"[^\n\t -~]")

_INVISIBLE = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | {*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0000, 0xE1000)}
)
"""Code points that take no ink although Unicode counts them as letters, marks or symbols.

The two that choose between the forms of an emoji (U+FE0E and U+FE0F) are left out.
"""

_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=\w)")

_REFERENCE = re.compile(
    r"[#!](?=\d)|\bG[HL]-(?=\d)|\b(?:issue|work_item):(?=\d)"
    r"|/(?:issues|pull|pulls|merge_requests|work_items)/(?=\d)",
    re.IGNORECASE,
)
"""The sign before the number of an issue. GitLab also looks for `Closes #1` in code blocks."""

TITLE_CHARACTERS = 72


def make_visible(text: str) -> str:
    r"""Return a text with only visible characters and line ends.

    Only characters that print, blanks, tabs and line ends stay. Others, such as the controls of a
    terminal, overrides of the direction, and characters without ink, become `\x1b` or `\u202e`.
    A line end of two characters becomes one. A visible text stays as it is.
    """
    return _NOT_PLAIN.sub(lambda found: _show(found[0]), text.replace("\r\n", "\n"))


def is_blank(text: str) -> bool:
    """Return True if there is nothing to read in a text."""
    return not any(_show(character) == character and not character.isspace() for character in text)


@lru_cache(4096)
def _show(character: str) -> str:
    prints = character.isprintable() or unicodedata.category(character) == "Zs"
    if prints and ord(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_text(value: str) -> str:
    """Return data as running text, with the special characters of Markdown and HTML escaped."""
    flat = _MENTION.sub("@ ", break_references(_in_a_line(value)))
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", flat)


def quote_code(value: str) -> str:
    """Return data as inline code, with a fence longer than any backticks in the data."""
    flat = break_references(_in_a_line(value))
    if not flat:
        return ""
    fence = "`" * (_longest("`", flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def quote_block(value: str) -> str:
    """Return data as a block of code, with a fence longer than any backticks in the data."""
    text = break_references(make_visible(value)).strip("\n")
    fence = "`" * max(_longest("`", text) + 1, 3)
    return f"{fence}text\n{text}\n{fence}"


def quote_title(value: str) -> str:
    """Return data as the title of a commit or of a pull request: one line of 72 characters.

    It cannot close an issue, mention a user, skip a pipeline, or command the forge.
    """
    flat = _MENTION.sub("@ ", break_references(_in_a_line(value)))
    flat = re.sub(r"\*{2,}", "*", flat.translate(str.maketrans("[]", "()")))
    flat = re.sub(r"^/(?=\w)", "/ ", flat)
    return flat if len(flat) <= TITLE_CHARACTERS else f"{flat[: TITLE_CHARACTERS - 1]}…"


def break_references(text: str) -> str:
    """Return a text with a blank before the number of each issue, which no forge then closes."""
    return _REFERENCE.sub(lambda found: f"{found[0]} ", text)


def _in_a_line(value: str) -> str:
    return make_visible(" ".join(value.split()))


def _longest(character: str, text: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)
