"""Retry policy for failed model calls."""

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeVar

import httpx

from agent.errors import (
    AgentError,
    ContextWindowExceeded,
    Interrupted,
    ModelError,
    NotSent,
    RequestRefused,
    one_line,
)

T = TypeVar("T")

Kind = Literal[
    "rate limit",
    "server error",
    "timeout",
    "connection",
    "not sent",
    "malformed answer",
    "context",
    "refused",
]
"""`context` and `refused` are final: the same request would get the same answer."""

_FREE_STATUSES = frozenset(
    {300, 301, 302, 303, 304, 307, 308}  # another address is named
    | {400, 401, 402, 403, 404, 405, 409, 410, 413, 414, 415, 422, 429, 431}  # the request is bad
    | {500, 501, 503, 529}  # the provider has failed or is busy, and bills answers only
)
"""Statuses by which the provider itself refuses an answer.

Any other status can follow work that was done: a gateway that lost the answer sends 502 or 520.
"""

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
)
"""Errors before a request was sent."""

_OURS = (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL)
"""Errors of a request that cannot be sent at all."""

_TIMEOUTS = frozenset({408, 504, 524})
"""Statuses of a provider, or of a proxy before it, that waited too long for an answer."""

_MALFORMED = ("'choices'", "invalid response", "json response", "json_invalid")
"""LiteLLM's wording for an unreadable answer, the only mark of such an error."""

_UNREADABLE = "Failed to parse input"
"""llama.cpp's words for a call that its model wrote wrongly."""

_INVALID_REQUEST = frozenset({400, 413, 422})
"""Statuses about the content of the request."""

TOO_LONG = re.compile(
    r"context[ _](length|size|window|limit)|context\b.{0,20}\boverflow"
    r"|max(imum|_)? ?(model|seq|sequence|input)[ _]len|prompt (is )?too long"
    r"|input (token count|length) .*exceeds|inputs` tokens \+|too many (input |prompt )?tokens",
    re.IGNORECASE,
)
"""Words of servers for a request that is longer than their window."""

CHECK_NAME = "check the model's name and api_base"

_HINTS = {
    401: "set the provider's key in the environment ({provider}_API_KEY, mostly)",
    402: "the account has no credit left",
    403: "the key is not allowed to use this model",
    **dict.fromkeys((404, 405), CHECK_NAME),
    **dict.fromkeys((301, 302, 303, 307, 308), "the server redirects, so correct api_base"),
}

_REMEDIES = {
    r"(invalid|unknown) model|model .{0,80}(not found|not exist)": CHECK_NAME,
    r"support tools|support tool use|support function call|tool.?choice.{0,20} requires"
    r"|tools? param.{0,20} requires|--tool-call-parser": (
        "switch on the tool calls of the server, or declare native_tools: false, which programs "
        "ignore"
    ),
    r"roles? must alternate|roles are supported|single tool.calls at once": (
        "start the server with another chat template, or declare native_tools: false, which "
        "programs ignore"
    ),
    r"role.{0,10} not supported|jinja|chat template": "start the server with another chat template",
    r"CERTIFICATE_VERIFY_FAILED": "SSL_CERT_FILE names the certificates to trust",
    r"WRONG_VERSION_NUMBER": "the server has no TLS: its api_base starts with http://",
    r"HTTP request (was sent )?to (an )?HTTPS": (
        "the server has TLS: its api_base starts with https://"
    ),
}
"""Remedies by the words of servers, some of them with the status 500. The same request would fail
again."""


@dataclass(frozen=True)
class Failure:
    """One failed call, as input of the retry policy."""

    kind: Kind
    message: str
    """One line: the provider's message, and a hint if there is one."""
    retry_after_s: float | None = None
    """Seconds that the provider asks to wait."""
    is_invalid: bool = False
    """True if the provider rejects the content of the request."""
    is_free: bool = False
    """True if it is known that the request costs nothing."""


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with jitter, or the provider's Retry-After if that is longer."""

    max_retries: int = 8
    malformed_retries: int = 3
    """A model that answers garbage three times will continue to do so."""
    timeout_retries: int = 1
    """A model that still generates at the end of its time will do so again, and is paid for it."""
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    least_part: float = 0.1
    """Least wait, as a part of the longest one. Without it, eight waits may be none at all."""
    longest_retry_after_s: float = 600.0
    """A provider that asks for more is out of quota for the day: fail at once."""

    def allows(self, failure: Failure, retries: int) -> bool:
        """Return True if a call that was retried `retries` times may be retried again."""
        if failure.kind in ("context", "refused") or self.exceeds_wait(failure):
            return False
        return retries + 1 < self.most_tries(failure)

    def most_tries(self, failure: Failure) -> int:
        """Return the number of requests after which a call fails for good in this way."""
        limits = {"malformed answer": self.malformed_retries, "timeout": self.timeout_retries}
        return 1 + min(self.max_retries, limits.get(failure.kind, self.max_retries))

    def exceeds_wait(self, failure: Failure) -> bool:
        """Return True if the provider asks for a longer wait than the policy allows."""
        return (failure.retry_after_s or 0) > self.longest_retry_after_s

    def wait_s(
        self, failure: Failure, retries: int, uniform: Callable[[float, float], float]
    ) -> float:
        """Return the seconds before the next request. Jitter spreads simultaneous failures.

        A hint of the provider makes it longer, and never shorter.
        """
        longest = min(self.longest_wait_s, self.first_wait_s * 2**retries)
        backoff_s = uniform(longest * self.least_part, longest)
        return max(backoff_s, (failure.retry_after_s or 0.0) * (1 + uniform(0, 0.25)))


@dataclass(frozen=True)
class Retry:
    """A failed request of a call, and when the next one is sent."""

    reason: str
    """One line: what failed."""
    failed: int
    """Number of failed requests of the call."""
    most: int
    """Number of requests after which the call fails for good."""
    wait_s: float
    """Seconds until the next request."""


class EmptyAnswer(Exception):
    """The provider's answer has no choices."""


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    uniform: Callable[[float, float], float] = random.uniform,
    before_resend: Callable[[], Awaitable[None]] | None = None,
    report: Callable[[Retry], Awaitable[None]] | None = None,
) -> tuple[T, int]:
    """Return the result of `call`, and the number of failed calls before it.

    `before_resend` is awaited before each request that follows a possibly charged one.
    `report` is awaited before each wait for a further request.

    Raises:
        BudgetExhausted: `before_resend` does not allow another request.
        ContextWindowExceeded: the conversation is longer than the model can read.
        ModelError: an error that cannot be retried, or the last error when no retry is left.
        NotSent: `call` or `sleep` raised Interrupted, and no earlier call can have cost anything.
        Interrupted: the same after a failure that may have been charged for.
    """
    retries, is_free = 0, True
    try:
        while True:
            try:
                return await call(), retries
            except Exception as error:
                failure = classify(error)
                if failure is None:
                    raise
                is_free = is_free and failure.is_free
                if not policy.allows(failure, retries):
                    raise _final_error(failure, retries, policy, is_free=is_free) from error
            wait_s = policy.wait_s(failure, retries, uniform)
            retries += 1
            if report is not None:
                reason = f"{failure.kind}: {failure.message}"
                await report(Retry(reason, retries, policy.most_tries(failure), wait_s))
            await sleep(wait_s)
            if not is_free and before_resend is not None:
                await before_resend()
                is_free = True
    except Interrupted as error:
        if is_free:
            raise NotSent(str(error)) from None
        raise


def _final_error(
    failure: Failure, retries: int, policy: RetryPolicy, *, is_free: bool
) -> AgentError:
    """Return the error of a call that is not tried again."""
    if failure.kind == "context":
        return ContextWindowExceeded(failure.message)
    message = f"{failure.kind}: {failure.message}"
    if policy.exceeds_wait(failure):
        message += f" (asks to wait {failure.retry_after_s:.0f} s)"
        return ModelError(message, retryable=False, is_free=is_free)
    if failure.is_invalid:
        return RequestRefused(message, is_free=is_free)
    if retries:
        message += f" (after {retries} {'retry' if retries == 1 else 'retries'})"
    return ModelError(
        message,
        retryable=failure.kind not in ("refused", "timeout"),
        is_free=is_free,
    )


def classify(error: Exception) -> Failure | None:
    """Classify an error of LiteLLM by its status. Return None for any other error."""
    if isinstance(error, EmptyAnswer):
        return Failure("malformed answer", str(error))
    if isinstance(error, TimeoutError):
        return Failure("timeout", "the request took longer than timeout_s")
    cause: BaseException | None = error
    for _ in range(20):  # causes, which may form a circle
        if isinstance(cause, _NOT_SENT):
            message, remedy = one_line(cause), find_remedy(str(cause))
            if remedy is not None:
                return Failure("refused", f"{message} ({remedy})", is_free=True)
            unsent: Kind = "refused" if isinstance(cause, _OURS) else "not sent"
            return Failure(unsent, message, is_free=True)
        cause = (cause.__cause__ or cause.__context__) if cause is not None else None
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    # LiteLLM attaches the headers of the response to the errors that it maps.
    response = getattr(error, "response", None)
    fields = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None)
    headers = {name.lower(): str(value) for name, value in dict(fields or {}).items()}
    message = _provider_words(error) or f"status {status}"
    if 300 <= status < 400 and (place := headers.get("location")):
        message = f"status {status} to {place}"
    if type(error).__name__ == "ContextWindowExceededError":
        return Failure("context", message, is_free=True)
    kind = _failure_kind(status, message, str(error), answered=bool(headers))
    if kind == "refused" and (remedy := find_remedy(message)):
        message = f"{message} ({remedy})"
    elif kind == "refused" and status in _HINTS:
        provider = str(getattr(error, "llm_provider", "") or "PROVIDER").upper()
        message = f"{message} ({_HINTS[status].format(provider=provider)})"
    is_invalid = kind == "refused" and (status in _INVALID_REQUEST or status == 500)
    is_free = status in _FREE_STATUSES and kind not in ("connection", "malformed answer")
    return Failure(kind, message, retry_after_s(headers), is_invalid, is_free)


def find_remedy(message: str) -> str | None:
    """Return what to change if a message says that every such request fails; else None."""
    found = (remedy for words, remedy in _REMEDIES.items() if re.search(words, message, re.I))
    return next(found, None)


def _failure_kind(status: int, message: str, text: str, *, answered: bool) -> Kind:
    if status == 429:
        return "refused" if "insufficient_quota" in text else "rate limit"
    if status in _TIMEOUTS:
        return "timeout"
    if 300 <= status < 400:
        return "refused"
    # LiteLLM reports a body that it cannot parse under the response's own status, 200. It reports
    # errors without a response as 500 without headers.
    if status < 400 or (not answered and any(mark in text.lower() for mark in _MALFORMED)):
        return "malformed answer"
    if status == 500 and _UNREADABLE in message:
        return "malformed answer"
    if status == 500 and (TOO_LONG.search(message) or find_remedy(message)):
        return "refused"  # the same request would fail again
    if status >= 500:
        return "server error" if answered else "connection"
    return "server error" if status == 409 else "refused"


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds in `retry-after-ms` or `Retry-After`, or None if they state no wait.

    The value can be a date.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d{1,12}(\.\d*)?\s*", value, re.ASCII):
            return float(value) * unit_s
        try:
            wait_s = (parsedate_to_datetime(value) - (now or datetime.now(UTC))).total_seconds()
        except (TypeError, ValueError, OverflowError):
            continue
        if wait_s > 0:
            return wait_s
    return None


def _provider_words(error: Exception) -> str:
    """Extract the provider's own message from LiteLLM's wrapping, on one line."""
    text = " ".join(str(error).split())
    if field := re.search(r'"(?:message|error|detail)":\s*("(?:[^"\\]|\\.)*")', text):
        with suppress(ValueError):
            text = " ".join(json.loads(field.group(1)).split())
            text = text.encode("utf-8", "replace").decode()  # no record holds lone surrogates
    text = re.sub(r"^(?:litellm\.)?(?:\w+(?:Error|Exception|Timeout)\b[\s:-]*)+", "", text)
    return text if len(text) <= 300 else f"{text[:299]}…"
