"""Texts that are not UTF-8, such as patches of files in other encodings, where only UTF-8 fits.

Python holds each byte that is not UTF-8 as a lone surrogate. JSON has an escape for those, so a
JSON string holds such a text whole. It is also how a predictions file holds it.
"""

import json


def make_readable(text: str) -> str:
    """Return a text as UTF-8 can hold it: a question mark for each lone surrogate."""
    return text.encode("utf-8", "replace").decode("utf-8")


def copy_exactly(text: str) -> str | None:
    """Return a text that is not UTF-8 as a JSON string; None if `make_readable` says all."""
    return None if make_readable(text) == text else json.dumps(text)


def restore(text: str, copy: str | None) -> str:
    """Return the text of which `make_readable` and `copy_exactly` were made."""
    return text if copy is None else str(json.loads(copy))


def encode(text: str) -> bytes:
    """Return the bytes of a patch. A lone surrogate that stands for no byte is written as it is."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
