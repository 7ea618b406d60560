"""A budget under attack: programs that crash, hang and lie, in several processes at once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Attempt, Journal, Limit
from agent.models.ceilings import Ceilings
from agent.models.http import load
from agent.models.protocol import Usage
from agent.models.spec import LiteLLMSpec
from tests.servers import openai_server as api
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORKER = Path(__file__).with_name("racing_program.py")
BUDGET_USD = 0.05
PROCESSES, ROUNDS = 3, 4


class Provider:
    """Bills each request at what it allows, answers some, and cuts off or delays others."""

    def __init__(self) -> None:
        self._prices = Ceilings(load(), LiteLLMSpec(name="openai/gpt-4o-mini"))
        self._lock = threading.Lock()
        self._random = random.Random(1)
        self.charged_usd = 0.0
        self.requests = 0

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        wrote = min(body[name] for name in ("max_tokens", "max_completion_tokens") if name in body)
        read = len(str(body)) // 4
        with self._lock:
            self.requests += 1
            self.charged_usd += sum(self._prices.get_listed_usd(Usage(read, 0, 0, wrote, 0)))
            fate = self._random.choice(["answer", "answer", "cut", "late", "garbage"])
        usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
        replies = {
            "answer": api.text("Hello.", usage=usage),
            "cut": api.dropped(),
            "late": api.slow(1.5, api.text("Hello.", usage=usage)),
            "garbage": api.empty_choices(),
        }
        return replies[fate]


@pytest.fixture
def provider() -> Iterator[tuple[Provider, str]]:
    billing = Provider()
    with api.OpenAIServer(billing, keep_requests=False) as server:
        yield billing, server.url


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_is_charged_never_exceeds_the_budget(
    tmp_path: Path,
    provider: tuple[Provider, str],
    database: str,
    request: pytest.FixtureRequest,
) -> None:
    """Killed with calls in flight, again and again, the programs are charged at most the budget,
    and the ledger knows of at least that much."""
    billing, address = provider
    if database == "sqlite":
        url = f"sqlite:///{tmp_path}/journal.sqlite"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database()
    journal = Journal.open(url)
    for number in range(PROCESSES):
        journal.start(Attempt(f"a{number}", "experiment", "arm", f"i{number}", 0, "{}"))
    drawn = random.Random(2)
    for round_ in range(ROUNDS):
        workers = [
            subprocess.Popen(
                [sys.executable, str(WORKER), url, f"a{number}", address, str(BUDGET_USD)],
                env={**os.environ, "OPENAI_API_KEY": "throw-away", "PYTHONPATH": str(Path.cwd())},
            )
            for number in range(PROCESSES)
        ]
        asked = billing.requests
        deadline = time.monotonic() + 40
        is_last = round_ == ROUNDS - 1
        while any(worker.poll() is None for worker in workers) and time.monotonic() < deadline:
            if not is_last and billing.requests > asked + drawn.randint(3, 9):
                break
            time.sleep(0.02)
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
            worker.wait()
        for number in range(PROCESSES):
            journal.expire(f"a{number}", journal.holder(f"a{number}") or "")
    spent_usd, _ = journal.spent(Limit("experiment", "experiment", BUDGET_USD, None))
    assert billing.requests > PROCESSES
    assert billing.charged_usd <= spent_usd + 1e-9
    assert spent_usd <= BUDGET_USD + 1e-9
