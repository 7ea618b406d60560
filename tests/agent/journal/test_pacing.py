"""Rate limits apply across all workers of a journal, on SQLite and PostgreSQL, even after kills."""

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agent.journal import Journal
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import BURST_S, Pace, RateLimit
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.agent.journal.pacers import take_turns
from tests.servers import openai_server as api

pytestmark = pytest.mark.sampled(4)

SPAWN = multiprocessing.get_context("spawn")
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
    """Requests within the burst start at once, and each further one waits one interval longer.

    Intervals count from the first request, so a slow database shortens the waits.
    """
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


async def test_tokens_and_requests_are_rates_of_their_own(journal: Journal) -> None:
    """A request waits for the token rate even if the request rate would allow it."""
    waits = Waits()
    both = RateLimit(requests_per_minute=600, tokens_per_minute=6000)
    pace = Pace(journal, {"provider": both}, waits)
    await pace.admit(["provider"], 3000)  # thirty seconds' worth of tokens
    assert waits.seconds == []
    await pace.admit(["provider"], 10)
    assert waits.seconds == [pytest.approx(20, abs=2)]


async def test_a_limit_applies_only_to_its_provider_or_model(journal: Journal) -> None:
    """A limit for one provider or model does not affect the others."""
    waits = Waits()
    slow = RateLimit(requests_per_minute=1)
    pace = Pace(journal, {"openai/large": slow}, waits)
    await pace.admit(["openai", "openai/large"], 0)
    await pace.admit(["openai", "openai/small"], 0)
    assert waits.seconds == []
    await pace.admit(["openai", "openai/large"], 0)
    assert waits.seconds == [pytest.approx(60, abs=2)]


def test_an_empty_limit_is_rejected() -> None:
    """An empty rate limit is rejected with a one-line error."""
    with pytest.raises(ValidationError, match="requests_per_minute, tokens_per_minute or both"):
        RateLimit()


@pytest.mark.slow
def test_workers_share_a_rate_also_after_kills(url: str, tmp_path: Path) -> None:
    """No period has more requests than the rate and the burst allow, even after kills."""
    Journal.open(url).close()
    workers = [
        SPAWN.Process(target=take_turns, args=(url, LIMIT, 1000, tmp_path / f"{number}.txt"))
        for number in range(4)
    ]
    for worker in workers:
        worker.start()

    def turns() -> list[float]:
        texts = [path.read_text() for path in tmp_path.glob("*.txt")]
        return sorted(float(line) for text in texts for line in text.split("\n")[:-1])

    def wait_for(number: int) -> None:
        deadline = time.monotonic() + 60
        while len(turns()) < number:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    wait_for(BURST + 5)
    for worker in workers[:2]:
        worker.kill()
    wait_for(len(turns()) + 10)
    for worker in workers[2:]:
        worker.kill()
    for worker in workers:
        worker.join()
    taken = turns()
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            # Half a second is allowed between taking a turn and writing it down.
            allowed = BURST + PER_S * (taken[last] - taken[first] + 0.5) + 1
            assert last - first + 1 <= allowed


@pytest.mark.slow
async def test_every_request_of_a_model_is_admitted_retries_too(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request and retry is admitted by provider and model name with its estimated tokens."""
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    admitted: list[Any] = []

    async def admit(names: Any, tokens: int) -> None:
        admitted.append((tuple(names), tokens))
        await pace.admit(names, tokens)

    waits = Waits()
    pace = Pace(journal, {"openai": RateLimit(requests_per_minute=1)}, waits)
    with api.OpenAIServer([api.rate_limited(retry_after="0.1"), api.text("yes")]) as server:
        spec = LiteLLMSpec(name="openai/test-model", api_base=server.url, max_tokens=50)
        model = LiteLLMModel(spec, admit=admit, sleep=waits)
        reply = await model.complete(ModelRequest([{"role": "user", "content": "x" * 400}]))
    assert reply.retries == 1
    assert admitted == [(("openai", "openai/test-model"), 1_280 + spec.max_tokens)] * 2
    assert 30 < max(waits.seconds) <= 61, "the rest of a minute"
