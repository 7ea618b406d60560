"""The failures that are retried, the number of retries, and the delays."""

import asyncio
from datetime import UTC, datetime
from random import Random

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelError
from agent.models.retry import (
    EmptyAnswer,
    Failure,
    Retry,
    RetryPolicy,
    call_with_retries,
    classify,
    retry_after_s,
)

ANSWERED = {"content-type": "application/json"}


class ProviderError(Exception):
    """An error in the form of LiteLLM's errors."""

    def __init__(
        self, status: int, message: str = "no", headers: dict[str, str] | None = ANSWERED
    ) -> None:
        super().__init__(f"litellm.SomeError: SomeError: OpenAIException - {message}")
        self.status_code = status
        self.litellm_response_headers = headers


class ContextWindowExceededError(ProviderError):
    """An error with the same name as LiteLLM's."""


class Calls:
    """A call that fails with each of `errors` and then succeeds."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.waits: list[float] = []
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def run(self, policy: RetryPolicy | None = None) -> tuple[str, int]:
        return await call_with_retries(
            self, policy or RetryPolicy(), sleep=self.sleep, uniform=lambda low, high: high
        )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProviderError(429), "rate limit"),
        (ProviderError(500), "server error"),
        (ProviderError(529), "server error"),
        (ProviderError(408, headers=None), "timeout"),
        (TimeoutError(), "timeout"),
        (ProviderError(500, "Server disconnected", None), "connection"),
        (ProviderError(500, "returned a response with no 'choices'", None), "malformed answer"),
        (ProviderError(200, "Unable to get json response"), "malformed answer"),
        (ProviderError(500, "Failed to parse input at pos 9: <tool_call>"), "malformed answer"),
        (EmptyAnswer("no choices"), "malformed answer"),
        (ProviderError(429, '{"code": "insufficient_quota"}'), "refused"),
        (ProviderError(401), "refused"),
        (ProviderError(403), "refused"),
        (ProviderError(404), "refused"),
        (ProviderError(422), "refused"),
        (ProviderError(500, "tools param requires --jinja flag"), "refused"),
        (ProviderError(500, "Conversation roles must alternate user/assistant"), "refused"),
        (ProviderError(500, "failed to parse <tool_call> in the output"), "server error"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "refused"),
        (httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING]"), "not sent"),
        (ContextWindowExceededError(400), "context"),
    ],
)
def test_every_error_has_its_class(error: Exception, kind: str) -> None:
    """Every error of a provider has a class, which decides about retries."""
    failure = classify(error)
    assert failure is not None
    assert failure.kind == kind


FREE_STATUSES = {300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 409, 410, 413}
FREE_STATUSES |= {414, 415, 422, 429, 431, 500, 501, 503, 529}


@given(st.integers(-1, 1000))
def test_only_listed_statuses_are_known_to_cost_nothing(status: int) -> None:
    """A gateway that lost its provider (502, 520) and an undefined status can be paid."""
    failure = classify(ProviderError(status))
    assert failure is not None
    assert failure.is_free == (status in FREE_STATUSES)


def test_waits_grow_and_stop_growing() -> None:
    """The backoff doubles from one second up to the longest wait."""
    policy = RetryPolicy(longest_wait_s=5)
    failure = Failure("rate limit", "")
    assert [policy.wait_s(failure, n, lambda low, high: high) for n in range(4)] == [1, 2, 4, 5]
    assert policy.wait_s(failure, 3, lambda low, high: low) == 0.5


@given(st.one_of(st.none(), st.floats(0, 600)), st.randoms())
def test_no_run_of_luck_and_no_hint_removes_the_backoff(
    hint_s: float | None, random: Random
) -> None:
    """Eight retries wait at least 18 s, and 90 to 110 s on average without a hint."""
    policy = RetryPolicy()
    failure = Failure("rate limit", "", hint_s)
    waits = [policy.wait_s(failure, n, random.uniform) for n in range(policy.max_retries)]
    assert sum(waits) >= 18
    assert max(waits) <= policy.longest_retry_after_s * 1.25


async def test_waits_for_a_model_that_does_not_answer_are_told() -> None:
    """A person reads what failed, which try it was, and when the next one is."""
    calls, retries = Calls(*[httpx.ConnectError("refused")] * 3), list[Retry]()

    async def report(retry: Retry) -> None:
        retries.append(retry)

    await call_with_retries(
        calls, RetryPolicy(), sleep=calls.sleep, uniform=lambda low, high: high, report=report
    )
    waits_s = ((1, 1), (2, 2), (3, 4))
    assert retries == [Retry("not sent: refused", failed, 9, wait_s) for failed, wait_s in waits_s]


@pytest.mark.parametrize("hint", ["0", "-1", "Sat, 01 Mar 2025 11:00:00 GMT", "nan", "1", "20"])
async def test_a_hint_makes_the_backoff_longer_and_never_shorter(hint: str) -> None:
    """A provider that is busy for a minute and says "now" is not asked nine times in a second."""
    errors = [ProviderError(429, headers={"Retry-After": hint})] * 4
    calls = Calls(*errors)
    await calls.run()
    longer = {"20": [25] * 4, "1": [1.25, 2, 4, 8]}
    assert calls.waits == longer.get(hint, [1, 2, 4, 8])


@pytest.mark.parametrize(
    ("error", "words", "calls_made", "is_retryable"),
    [
        (TimeoutError(), "after 1 retry", 2, False),  # it would generate for the whole time again
        (EmptyAnswer("no choices"), "after 3 retries", 4, True),
        (ProviderError(429, headers={"retry-after": "86400"}), "86400 s", 1, False),
    ],
)
async def test_some_failures_are_retried_less_often(
    error: Exception, words: str, calls_made: int, is_retryable: bool
) -> None:
    """The last error says if a later run can succeed."""
    calls = Calls(*[error] * 9)
    with pytest.raises(ModelError, match=words) as caught:
        await calls.run()
    assert (calls.made, caught.value.retryable) == (calls_made, is_retryable)


@pytest.mark.parametrize("error", [KeyError("x"), asyncio.CancelledError()])
async def test_other_errors_pass_through(error: BaseException) -> None:
    """An error in our own code and a cancellation are not failures of a provider."""
    calls = Calls(error)
    with pytest.raises(type(error)):
        await calls.run()
    assert calls.made == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Sat, 01 Mar 2025 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 01 Mar 2025 11:00:00 GMT"}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        *(({"retry-after": odd}, None) for odd in ("-5", "nan", "inf", "1e9", "9" * 400, "\u0661")),
        *(({"retry-after-ms": odd}, None) for odd in ("-5", "nan", "inf", "", "Mon, 99 Foo")),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds and dates are understood, and invalid values are ignored."""
    assert retry_after_s(headers, now=datetime(2025, 3, 1, 12, tzinfo=UTC)) == seconds
