"""The size of a request: what a provider would count, as far as it can be known before."""

import math
from dataclasses import dataclass
from typing import Any

from agent.errors import RequestRefused
from agent.models.requests.parts import Attachment, CacheMark, Part, Picture

_MARKS = 4
"""Characters of JSON around a name or a value: two quotes, a colon or comma, and a space."""

_MOST_TOKENS_OF_IMAGE = 40_000
"""More than any provider counts for one image: gpt-4o-mini's 37,000 for a large one."""


@dataclass
class Size:
    """The size of a request, of which the content of images and files is no part."""

    ascii_bytes: int = 0
    other_bytes: int = 0
    """Bytes of other scripts, which have more tokens."""
    images: int = 0
    files: int = 0
    """Documents whose number of tokens the provider decides."""
    caches_long: bool = False
    """True if a part is to be cached for an hour, which costs more."""

    @property
    def image_tokens(self) -> int:
        """More tokens than the provider counts for the images."""
        return self.images * _MOST_TOKENS_OF_IMAGE

    def add_text(self, text: str) -> None:
        """Count a text."""
        if text.isascii():  # which most texts are, and to encode them takes longer
            self.ascii_bytes += len(text)
            return
        ascii_bytes = len(text.encode("ascii", "ignore"))
        self.ascii_bytes += ascii_bytes
        self.other_bytes += len(text.encode("utf-8", "replace")) - ascii_bytes


def measure(request: Part) -> Size:
    """Return the size of a request that passed the door.

    The types decide what is an image or a file. An object that only looks like one, as a schema of
    a tool may, is text.

    Raises:
        RequestRefused: it has a number that JSON does not have.
        UnicodeEncodeError: it has a lone surrogate.
    """
    size = Size()
    _add(size, request)
    return size


def _add(size: Size, value: Any) -> None:
    if isinstance(value, str):
        size.ascii_bytes += _MARKS
        size.add_text(value)
        if not value.isascii():
            value.encode()  # raises for a lone surrogate
    elif isinstance(value, Part):
        _add_part(size, value)
    elif isinstance(value, list):
        for each in value:
            _add(size, each)
    elif isinstance(value, dict):
        for name, each in value.items():
            _add(size, name)
            _add(size, each)
    elif value is not None:
        if isinstance(value, float) and not math.isfinite(value):
            raise RequestRefused("the request is not JSON: a number is not finite")
        size.ascii_bytes += len(str(value)) + _MARKS


def _add_part(size: Size, part: Part) -> None:
    if isinstance(part, Picture):
        size.images += 1
    elif isinstance(part, Attachment):
        size.files += 1
    elif isinstance(part, CacheMark):
        size.caches_long |= part.ttl == "1h"
    for name, value in part:
        if value is not None and name not in part.CONTENT:
            size.ascii_bytes += len(name) + _MARKS
            _add(size, value)
