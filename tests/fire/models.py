"""A model server that counts what it is asked, charges for it, and can misbehave."""

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.servers import openai_server as api

USD_PER_INPUT, USD_PER_OUTPUT = 1e-6, 1e-5

REFUSALS = {"rate_limited": api.rate_limited("0.1"), "server_error": api.server_error()}
"""Answers without a charge."""
LOSSES: dict[str, Callable[[api.Reply], api.Reply]] = {
    "dropped": lambda reply: api.dropped(),
    "cut": lambda reply: api.malformed(),
    "empty": lambda reply: api.empty_choices(),
    "without its last bytes": lambda reply: replace(reply, missing=7),
}
"""How an answer becomes one that is charged, but of no use."""


class PaidModel:
    """The script of a model server. Its books are the truth that a ledger is compared with."""

    def __init__(self, latency_s: float, script: api.Script) -> None:
        self.latency_s = latency_s
        self.asked: Counter[str] = Counter()
        """Charged requests by model."""
        self.charged_usd = 0.0
        self.faults: deque[str] = deque()
        """What the next answers are, by name."""
        self._script = script
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        with self._lock:
            fault = self.faults.popleft() if self.faults else ""
        if fault in REFUSALS:
            return REFUSALS[fault]
        reply = self._script(body)
        assert isinstance(reply.body, dict)
        usage = reply.body["usage"]
        with self._lock:
            self.asked[body["model"]] += 1
            self.charged_usd += usage["prompt_tokens"] * USD_PER_INPUT
            self.charged_usd += usage["completion_tokens"] * USD_PER_OUTPUT
        lose = LOSSES.get(fault)
        return api.slow(self.latency_s, lose(reply) if lose else reply)
