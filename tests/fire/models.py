"""A model server that counts what it is asked, charges for it, and can misbehave."""

import threading
from collections import Counter, deque
from typing import Any

from tests.servers import openai_server as api
from tests.servers.simulated_server import Simulation

USD_PER_INPUT, USD_PER_OUTPUT = 1e-6, 1e-5

REFUSALS = {"rate_limited": api.rate_limited("0.1"), "server_error": api.server_error()}
"""Answers without a charge."""
LOSSES = {"dropped": api.dropped(), "cut": api.malformed(), "empty": api.empty_choices()}
"""Answers that are charged, but of no use."""


class PaidModel:
    """The script of a model server. Its books are the truth that a ledger is compared with."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.asked: Counter[str] = Counter()
        """Charged requests by model."""
        self.charged_usd = 0.0
        self.faults: deque[str] = deque()
        """What the next answers are, by name."""
        self._simulation = Simulation()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        with self._lock:
            fault = self.faults.popleft() if self.faults else ""
        if fault in REFUSALS:
            return REFUSALS[fault]
        reply = self._simulation(body)
        assert isinstance(reply.body, dict)
        usage = reply.body["usage"]
        with self._lock:
            self.asked[body["model"]] += 1
            self.charged_usd += usage["prompt_tokens"] * USD_PER_INPUT
            self.charged_usd += usage["completion_tokens"] * USD_PER_OUTPUT
        return api.slow(self.latency_s, LOSSES.get(fault, reply))
