"""Requests at a time to one server."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Journal
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import Pace, Sending
from agent.models.protocol import Foreign, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers.providers import Body, Listener, Sent, answer_in

HELLO = [{"role": "user", "content": "Hello."}]
ANSWER_S = 1.0


class Slow:
    """A server that needs a while for an answer, and counts the requests that it has at a time."""

    def __init__(self) -> None:
        self.most = self._now = 0
        self._lock, self._never = threading.Lock(), threading.Event()

    def __call__(self, sent: Sent) -> Body:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._never.wait(ANSWER_S)
        with self._lock:
            self._now -= 1
        return answer_in("chat", {"prompt_tokens": 9, "completion_tokens": 2})


def declare(listener: Listener, **fields: Any) -> dict[str, Any]:
    spec = {"api_base": f"{listener.address}/v1", "context_tokens": 8192, "max_retries": 0}
    return {"name": "openai/one", **spec, "timeout_s": 3 * ANSWER_S, **fields}


async def call_twice(url: str, spec: dict[str, Any]) -> None:
    sending = Sending(pace=Pace(Journal.open(url), {}))
    model = LiteLLMModel(LiteLLMSpec.model_validate(spec), sending)
    await asyncio.gather(*(model.complete(ModelRequest(HELLO)) for _ in range(2)))


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_server_gets_as_many_requests_at_a_time_as_it_has_slots(
    concurrency: int, journal: Journal
) -> None:
    """Arms and programs share them, and the wait for a slot is no part of `timeout_s`."""
    server = Slow()
    listener = Listener(server)
    models = [
        LiteLLMModel(
            LiteLLMSpec.model_validate(declare(listener, name=name, concurrency=concurrency)),
            Sending(pace=Pace(journal, {})),
        )
        for name in ("openai/one", "openai/other")
    ]
    program = ModelRequest([], foreign=Foreign("chat", {"messages": HELLO}, {}))
    requests = [ModelRequest(HELLO), program]
    try:
        await asyncio.gather(*(model.complete(each) for model in models for each in requests))
    finally:
        listener.close()
    assert server.most == concurrency


async def test_processes_share_the_slots_of_a_server(tmp_path: Path) -> None:
    """The limit holds for all processes of a journal, also for shards. None of them starves."""
    url = f"sqlite:///{tmp_path}/journal.sqlite"
    server = Slow()
    listener = Listener(server)
    spec = declare(listener, concurrency=1, timeout_s=600)
    calls = f"asyncio.run(call_twice({url!r}, {spec!r}))"
    code = f"import asyncio; from {__name__} import call_twice; {calls}"
    try:
        processes = [await asyncio.create_subprocess_exec(sys.executable, "-c", code) for _ in "ab"]
        assert [await process.wait() for process in processes] == [0, 0]
    finally:
        listener.close()
    assert (server.most, len(listener.sent)) == (1, 4)
