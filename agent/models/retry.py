"""Retry policy for failed model calls."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeVar

from agent.errors import (
    AgentError,
    ContextWindowExceeded,
    Interrupted,
    ModelError,
    NotSent,
    RequestRefused,
)

T = TypeVar("T")

Kind = Literal[
    "rate limit", "server error", "timeout", "connection", "malformed answer", "context", "refused"
]
"""`context` and `refused` are final: the same request would get the same answer."""

_REFUSALS: frozenset[Kind] = frozenset({"rate limit", "server error"})
"""Failures that the provider itself reports, and does not charge for.

After any other failure, the provider may have done the work.
"""

_MALFORMED = ("'choices'", "invalid response", "json response", "json_invalid")
"""LiteLLM's wording for an answer that it cannot read. Such an error has no other mark."""

_INVALID_REQUEST = frozenset({400, 413, 422})
"""Statuses that speak of the content of the request."""

_HINTS = {
    401: "set the provider's key in the environment ({provider}_API_KEY, mostly)",
    402: "the account has no credit left",
    403: "the key may not use this model",
    404: "check the model's name and api_base",
}


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


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with full jitter, or the provider's Retry-After if given."""

    max_retries: int = 8
    malformed_retries: int = 3
    """A model that answers garbage three times will continue to do so."""
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_retry_after_s: float = 600.0
    """A provider that asks for more is out of quota for the day: fail at once."""

    def allows(self, failure: Failure, retries: int) -> bool:
        """Return True if a call that was retried `retries` times may be retried again."""
        if failure.kind in ("context", "refused") or self.asks_too_much(failure):
            return False
        malformed = failure.kind == "malformed answer"
        return retries < (
            min(self.malformed_retries, self.max_retries) if malformed else self.max_retries
        )

    def asks_too_much(self, failure: Failure) -> bool:
        return (failure.retry_after_s or 0) > self.longest_retry_after_s

    def wait_s(
        self, failure: Failure, retries: int, uniform: Callable[[float, float], float]
    ) -> float:
        """Return the seconds before the next request. Jitter spreads simultaneous failures."""
        if failure.retry_after_s is not None:
            return failure.retry_after_s * (1 + uniform(0, 0.25))
        return uniform(0, min(self.longest_wait_s, self.first_wait_s * 2**retries))


class EmptyAnswer(Exception):
    """The provider's answer has no choices."""


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    uniform: Callable[[float, float], float] = random.uniform,
) -> tuple[T, int]:
    """Return the result of `call`, and the number of failed calls before it.

    Raises:
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
                if not policy.allows(failure, retries):
                    raise _final(failure, retries, policy) from error
            is_free = is_free and failure.kind in _REFUSALS
            await sleep(policy.wait_s(failure, retries, uniform))
            retries += 1
    except Interrupted as error:
        if is_free:
            raise NotSent(str(error)) from None
        raise


def _final(failure: Failure, retries: int, policy: RetryPolicy) -> AgentError:
    if failure.kind == "context":
        return ContextWindowExceeded(failure.message)
    if policy.asks_too_much(failure):
        wait = f"asks to wait {failure.retry_after_s:.0f} s"
        return ModelError(f"{failure.kind}: {failure.message} ({wait})", retryable=False)
    if failure.is_invalid:
        return RequestRefused(f"{failure.kind}: {failure.message}")
    tried = f" (after {retries} retries)" if retries else ""
    return ModelError(
        f"{failure.kind}: {failure.message}{tried}", retryable=failure.kind != "refused"
    )


def classify(error: Exception) -> Failure | None:
    """Classify an error of LiteLLM by its status. Return None for any other error."""
    if isinstance(error, EmptyAnswer):
        return Failure("malformed answer", str(error))
    if isinstance(error, TimeoutError):
        return Failure("timeout", "the request took longer than timeout_s")
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    headers = _headers(error)
    message = _provider_words(error)
    if type(error).__name__ == "ContextWindowExceededError":
        return Failure("context", message)
    kind = _kind(status, message, str(error), answered=bool(headers))
    if kind == "refused" and status in _HINTS:
        provider = str(getattr(error, "llm_provider", "") or "PROVIDER").upper()
        message = f"{message} ({_HINTS[status].format(provider=provider)})"
    is_invalid = kind == "refused" and status in _INVALID_REQUEST
    return Failure(kind, message, retry_after_s(headers), is_invalid)


def _kind(status: int, message: str, text: str, *, answered: bool) -> Kind:
    if status == 429:
        return "refused" if "insufficient_quota" in text else "rate limit"
    if status == 408:
        return "timeout"
    # LiteLLM reports a body that it cannot parse under the response's own status, 200. It reports
    # errors without a response as 500 without headers.
    if status < 400 or (not answered and any(mark in text.lower() for mark in _MALFORMED)):
        return "malformed answer"
    if status >= 500:
        return "server error" if answered else "connection"
    return "server error" if status == 409 else "refused"


def _headers(error: Exception) -> Mapping[str, str]:
    """Return response headers by lower-case name.

    LiteLLM attaches them to the errors that it maps.
    """
    response = getattr(error, "response", None)
    found = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None)
    return {name.lower(): str(value) for name, value in dict(found or {}).items()}


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds in `retry-after-ms` or `Retry-After`. The latter may be a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers["retry-after"]
        if re.fullmatch(r"\s*\d+(\.\d*)?\s*", value):
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - (now or datetime.now(UTC))).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None


def _provider_words(error: Exception) -> str:
    """Extract the provider's own message from LiteLLM's wrapping, on one line."""
    text = " ".join(str(error).split())
    if found := re.search(r'"message":\s*"((?:[^"\\]|\\.)*)"', text):
        text = found.group(1)
    text = re.sub(r"^(?:litellm\.)?(?:\w+(?:Error|Exception|Timeout)\b[\s:-]*)+", "", text) or text
    return text if len(text) <= 300 else f"{text[:299]}…"
