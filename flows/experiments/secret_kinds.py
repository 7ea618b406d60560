"""Secrets of providers and forges, recognised by kind, and refused where everyone can read them.

Flow runs, the lake and files of experiments are readable. Their values are `ReadableValues`, which
are checked after parsing, so that escapes of JSON or YAML cannot hide a secret.
"""

import base64
import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, model_validator

KINDS = {
    "a key of Anthropic": r"sk-ant-[\w-]{16,}",
    "a key of OpenRouter": r"sk-or-[\w-]{16,}",
    "a key of OpenAI": r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}"
    r"|(?:[A-Za-z0-9]{1,20}-)?[A-Za-z0-9]{20,})",
    "a key of Google": r"AIza[\w-]{30,}",
    "a key of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "a token of GitHub": r"gh[a-z]_[A-Za-z0-9]{16,}|github_pat_\w{16,}",
    "a token of GitLab": r"gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[\w.-]{16,}",
    "a token of Hugging Face": r"hf_[A-Za-z0-9]{20,}",
    "a token of Slack": r"xox[a-z]-(?=[A-Za-z-]{0,60}\d)[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{16,}",
    "a key of Groq": r"gsk_[A-Za-z0-9]{20,}",
    "a key of xAI": r"xai-[A-Za-z0-9]{20,}",
    "a private key": r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,5}PRIVATE KEY(?: BLOCK)?-----",
    "an address with a password": r"[A-Za-z][A-Za-z0-9+.-]{0,30}://"
    r"[^\s/?#@:\"'`<>]{0,300}:[^\s/?#@\"'`<>]{1,300}@",
}
"""Regular expressions by kind, with the lengths that real secrets have and words do not.

The first kind that fits counts."""

_KINDS = {kind: re.compile(rf"(?<![A-Za-z0-9])(?:{form})") for kind, form in KINDS.items()}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_URL_SAFE = str.maketrans("-_", "+/")
_DEEPEST = 64


def find_secret(text: str) -> str | None:
    """Return the kind of a secret in a text, or None.

    It is also found behind percent signs, backslashes, entities of HTML, and in base64.
    """
    for form in _forms(text):
        for kind, pattern in _KINDS.items():
            if pattern.search(form):
                return kind
    return None


def _forms(text: str) -> Iterator[str]:
    """Yield a text in all its decoded forms."""
    unescaped = _ESCAPE.sub(lambda escape: chr(int(escape[1] or escape[2], 16)), text)
    plain = dict.fromkeys([text, unquote(text), html.unescape(text), unescaped])
    yield from plain
    for form in plain:
        for run in _BASE64.findall(form):
            for begin in range(4):  # what is before the encoded text may belong to the alphabet
                part = run[begin:].translate(_URL_SAFE)
                yield base64.b64decode(part[: len(part) // 4 * 4]).decode("latin-1")
                rest = part + "A" * (-len(part) % 4)  # the last bytes, with some of no meaning
                yield base64.b64decode(rest).decode("latin-1")


def check_readable(value: object) -> None:
    """Check that everyone can read every text in a value, including names.

    Raises:
        ValueError: one holds a secret, or cannot be stored. The message names the field and the
            kind, and never the secret.
    """
    waiting: list[tuple[tuple[str, ...], object]] = [((), value)]
    while waiting:
        place, part = waiting.pop()
        if len(place) > _DEEPEST:
            raise ValueError(f"{place[0]}: it is nested deeper than {_DEEPEST} levels")
        match part:
            case str():
                _check_text(".".join(place), part)
            case BaseModel():
                waiting.append((place, part.model_dump()))
            case Mapping():
                for name in part:
                    _check_text(".".join([*place, "a name"]), str(name))
                waiting += [((*place, str(name)), inner) for name, inner in part.items()]
            case list() | tuple():
                waiting += [((*place, str(at)), inner) for at, inner in enumerate(part)]


def _check_text(place: str, text: str) -> None:
    where = f"{place}: " if place else ""
    if re.search("[\0\ud800-\udfff]", text):
        raise ValueError(f"{where}it has a NUL or half a character, which cannot be stored")
    if kind := find_secret(text):
        raise ValueError(
            f"{where}it holds {kind}, which a flow run and the lake would show: give the workers "
            "keys in their environment, and name a Prefect Secret block with the token of a forge "
            "in token_block"
        )


class ReadableValues(BaseModel):
    """Values that everyone can read. They contain no secrets."""

    # An error shows no value, because the value can be the secret.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_given_no_secret(cls, content: Any) -> Any:
        # Before any other check, because its message could repeat a value.
        if not isinstance(content, BaseModel):
            check_readable(content)
        return content

    @model_validator(mode="after")
    def _has_read_no_secret(self) -> Self:
        # From a file that a value names, as a recipe.
        check_readable(self)
        return self
