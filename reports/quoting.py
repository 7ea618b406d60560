"""Text of strangers in Markdown and in titles, where it may not act on the page or its forge."""

import re

from reports.visible import make_visible

_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=\w)")

_REFERENCE = re.compile(
    r"[#!](?=\d)|\bG[HL]-(?=\d)|\b(?:issue|work_item):(?=\d)"
    r"|/(?:issues|pull|pulls|merge_requests|work_items)/(?=\d)",
    re.IGNORECASE,
)
"""The sign before the number of an issue. GitLab looks for `Closes #1` in code blocks, too."""

TITLE_CHARACTERS = 72


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

    It closes no issue, mentions nobody, skips no pipeline, and gives the forge no command.
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
