"""Rate limits apply across all workers of a journal, on SQLite and PostgreSQL, even after kills."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from agent.journal import Journal
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import BURST_S, Pace, RateLimit, Sending
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers import openai_server as api

PER_S = 5.0
LIMIT = RateLimit(requests_per_minute=60 * PER_S)
BURST = int(PER_S * BURST_S)
"""Requests that may start at once after a pause."""
CLOCKS_DIFFER_S = 0.02
"""The database's clock and this process's may run apart by this much during a test."""


class Waits:
    """Record the pauses that would have been slept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_requests_beyond_the_burst_wait(journal: Journal) -> None:
    """Requests within the burst start at once, and each further one waits one interval longer."""
    waits = Waits()
    pace = Pace(journal, {"provider": LIMIT}, waits)
    began = time.monotonic()
    for _ in range(BURST):
        await pace.admit(["provider"], 0)
    assert waits.seconds == []
    for number in range(1, 11):
        waits.seconds.clear()
        await pace.admit(["provider"], 0)
        longest = number / PER_S
        shortest = longest - (time.monotonic() - began)
        assert shortest - CLOCKS_DIFFER_S <= sum(waits.seconds) <= longest + CLOCKS_DIFFER_S


def test_an_empty_limit_is_rejected() -> None:
    """An empty rate limit is rejected with a one-line error."""
    with pytest.raises(ValidationError, match="requests_per_minute, tokens_per_minute or both"):
        RateLimit()


@pytest.mark.slow
async def test_every_request_of_a_model_is_admitted_retries_too(
    journal: Journal,
) -> None:
    """Every request and retry is admitted by provider and model name with its estimated tokens."""
    admitted: list[Any] = []

    async def admit(names: Any, tokens: int) -> None:
        admitted.append((tuple(names), tokens))
        await pace.admit(names, tokens)

    waits = Waits()
    pace = Pace(journal, {"openai": RateLimit(requests_per_minute=1)}, waits)
    with api.OpenAIServer([api.rate_limited(retry_after="0.1"), api.text("yes")]) as server:
        spec = LiteLLMSpec(name="openai/test-model", api_base=server.url, max_tokens=50)
        recording: Any = SimpleNamespace(admit=admit)
        model = LiteLLMModel(spec, Sending(sleep=waits, pace=recording))
        reply = await model.complete(ModelRequest([{"role": "user", "content": "x" * 400}]))
    assert reply.retries == 1
    assert admitted == [(("openai", "openai/test-model"), 1_280 + spec.max_tokens)] * 2
    assert 30 < max(waits.seconds) <= 61, "the rest of a minute"
