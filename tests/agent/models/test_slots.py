"""Requests at a time to one server."""

import asyncio
import threading
from typing import Any

import pytest

from agent.models.litellm_api import LiteLLMModel
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


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_server_gets_as_many_requests_at_a_time_as_it_has_slots(
    concurrency: int,
) -> None:
    """Arms and programs share them, and the wait for a slot is no part of `timeout_s`."""
    server = Slow()
    listener = Listener(server)
    spec = {"api_base": f"{listener.address}/v1", "context_tokens": 8192, "max_retries": 0}
    fields: dict[str, Any] = {"concurrency": concurrency, "timeout_s": 3 * ANSWER_S}
    models = [
        LiteLLMModel(LiteLLMSpec.model_validate({"name": name, **spec, **fields}))
        for name in ("openai/one", "openai/other")
    ]
    program = ModelRequest([], foreign=Foreign("chat", {"messages": HELLO}, {}))
    requests = [ModelRequest(HELLO), program]
    try:
        await asyncio.gather(*(model.complete(each) for model in models for each in requests))
    finally:
        listener.close()
    assert server.most == concurrency
