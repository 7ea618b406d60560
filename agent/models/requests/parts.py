"""Parts of requests that the dialects share."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
)

from agent.errors import RequestRefused

Dialect = Literal["chat", "messages", "responses", "gemini"]
"""A model API: OpenAI's chat completions, Anthropic's messages, OpenAI's responses, or Google's
generateContent."""

FETCHES = "may_fetch"
"""Name in the context of a validation: True if the provider may fetch what a URL names."""

_DATA_URL = re.compile(r"data:[a-z]+/[a-z0-9.+-]{1,80};base64,", re.IGNORECASE)


class Part(BaseModel):
    """A part of a request. Fields that it does not name are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    CONTENT: ClassVar[tuple[str, ...]] = ()
    """Names of the fields whose characters do not count as tokens."""


class Picture(Part):
    """A part that holds the content of an image."""


class Attachment(Part):
    """A part that holds the content of a file."""


def _check_fetch(url: str, info: ValidationInfo) -> None:
    if not (info.context or {}).get(FETCHES):
        raise ValueError("the provider would fetch this URL; send the content itself")
    if not url.startswith(("https://", "http://")):
        raise ValueError("only https: and http: can be fetched")


def _check_content_url(url: str, info: ValidationInfo) -> str:
    if not _DATA_URL.match(url):
        _check_fetch(url, info)
    return _check_ascii(url)


def _check_remote_url(url: str, info: ValidationInfo) -> str:
    _check_fetch(url, info)
    return _check_ascii(url)


def _check_ascii(content: str) -> str:
    if not content.isascii():
        raise ValueError("the content is not base64")
    return content


def _read_limit(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 1 <= value <= MOST_TOKENS else None


def refusal(message: str) -> BeforeValidator:
    """Return the validator of a field that would change the answer, so it must not be set."""

    def refuse(value: Any) -> None:
        if value is not None and value != []:
            raise ValueError(message)

    return BeforeValidator(refuse)


def check_one(value: Any) -> None:
    """Check the number of answers that a request asks for."""
    if value is not None and (value != 1 or isinstance(value, bool)):
        raise ValueError("a request has one answer here")


MOST_TOKENS = 10_000_000
"""More output than any model has."""

Limit = Annotated[int | None, BeforeValidator(_read_limit)]
"""Most tokens of the output. An invalid limit becomes None, so the request gets the default."""

Word = Annotated[str, Field(max_length=1_000)]
"""A name or an identifier."""

Level = Annotated[str, Field(max_length=20, pattern=r"^[a-z]+$")]
"""A level such as `low`, in the provider's terms."""

MediaType = Annotated[str, Field(pattern=r"^(?i:[a-z]+/[a-z0-9.+-]{1,80})$")]

Base64 = Annotated[str, AfterValidator(_check_ascii)]

ContentUrl = Annotated[str, AfterValidator(_check_content_url)]
"""Content in a `data:` URL, or an address if the provider may fetch."""

RemoteUrl = Annotated[str, AfterValidator(_check_remote_url)]

Json = dict[str, JsonValue]
"""Any JSON object: the arguments of a tool of the program, or their schema."""

Temperature = Annotated[float, Field(ge=0, le=2)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class CacheMark(Part):
    """A mark that asks the provider to cache the prompt up to here."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class MarkedPart(Part):
    """A part after which a request can mark the end of a cached prompt."""

    cache_control: CacheMark | None = None


class Thinking(Part):
    """The amount that a model may think before it answers."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    display: Level | None = None


class ThinkingBlock(MarkedPart):
    """A thought of the model in an earlier answer."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class RedactedThinking(MarkedPart):
    """A thought that only the provider can read."""

    type: Literal["redacted_thinking"]
    data: str


class Reasoning(Part):
    """A reasoning item of the Responses API in an earlier answer."""

    type: Literal["reasoning"]
    id: Word | None = None
    summary: list[Json] | None = None
    content: list[Json] | None = None
    encrypted_content: str | None = None
    status: Word | None = None


_MARKS = 4
"""Characters of JSON around a name or a value: two quotes, a colon or comma, and a space."""

_MOST_TOKENS_OF_IMAGE = 40_000
"""More than any provider counts for one image: gpt-4o-mini's 37,000 for a large one."""


@dataclass
class Size:
    """The size of a request without the content of its images and files."""

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
        if text.isascii():  # as most texts are, and encoding takes longer
            self.ascii_bytes += len(text)
            return
        ascii_bytes = len(text.encode("ascii", "ignore"))
        self.ascii_bytes += ascii_bytes
        self.other_bytes += len(text.encode("utf-8", "replace")) - ascii_bytes


def measure(request: Part) -> Size:
    """Return the size of a validated request.

    The types distinguish images and files. An object that only looks like one, such as the schema
    of a tool, is text.

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
        size.images += isinstance(value, Picture)
        size.files += isinstance(value, Attachment)
        size.caches_long |= isinstance(value, CacheMark) and value.ttl == "1h"
        for name, field in value:
            if field is not None and name not in value.CONTENT:
                size.ascii_bytes += len(name) + _MARKS
                _add(size, field)
    elif isinstance(value, list):
        for item in value:
            _add(size, item)
    elif isinstance(value, dict):
        for name, item in value.items():
            _add(size, name)
            _add(size, item)
    elif value is not None:
        if isinstance(value, float) and not math.isfinite(value):
            raise RequestRefused("the request is not JSON: a number is not finite")
        size.ascii_bytes += len(str(value)) + _MARKS
