"""Text of strangers for terminals and pages: what would act on them is shown instead."""

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


def make_visible(text: str) -> str:
    r"""Return a text of which every character can be seen, except for its line ends.

    Only characters that print, blanks, tabs and line ends stay. Others, such as the controls of a
    terminal, overrides of the direction, and characters without ink, become `\x1b` or `\u202e`.
    A line end of two characters becomes one. A visible text stays as it is.
    """
    return _NOT_PLAIN.sub(lambda found: _shown(found[0]), text.replace("\r\n", "\n"))


def is_blank(text: str) -> bool:
    """Return True if there is nothing to read in a text."""
    return not any(_shown(each) == each and not each.isspace() for each in text)


@lru_cache(4096)
def _shown(character: str) -> str:
    prints = character.isprintable() or unicodedata.category(character) == "Zs"
    if prints and ord(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
