"""The simulated model behind HTTP, so that tests count the calls that were really sent.

with OpenAIServer(Simulation(latency_s=0.5)) as server:
    ...  # the model `openai/skill-0.5` at server.url solves half of the bundled tasks
"""

import asyncio
import functools
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from agent.models.protocol import ModelReply, ModelRequest
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from eval.instances import load
from tests.servers.openai_server import Reply, completion, slow

Call = tuple[str, str, int]
"""Model, instance, and number of assistant messages in the conversation."""


@dataclass
class Simulation:
    """A script of answers to mini-swe-agent on the bundled tasks."""

    latency_s: float = 0.0
    calls: Counter[Call] = field(default_factory=Counter)
    """Number of requests for each call."""
    held: frozenset[str] = frozenset()
    """Models that answer no request for now."""
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages, model = body["messages"], body["model"]
        told = "".join(_text(message["content"]) for message in messages)
        [task] = [task for task in _tasks() if task.statement.splitlines()[0] in told]
        turns = sum(message["role"] == "assistant" for message in messages)
        with self._lock:
            self.calls[model, task.id, turns] += 1
        while model in self.held:
            time.sleep(0.05)
        spec = SimulatedSpec(provider="simulated", skill=float(model.rpartition("-")[2]))
        request = ModelRequest(messages, body.get("tools", []))
        reply = asyncio.run(SimulatedModel(spec, task, seed=0).complete(request))
        return slow(self.latency_s, _as_completion(reply, model))

    @property
    def asked(self) -> set[str]:
        """Models that were asked."""
        with self._lock:
            return {model for model, _, _ in self.calls}


@functools.cache
def _tasks() -> list[Task]:
    return [
        Task(each.instance_id, each.problem_statement, each.base_commit, each.patch)
        for each in load("bundled")
    ]


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _as_completion(reply: ModelReply, model: str) -> Reply:
    usage = {
        "prompt_tokens": reply.usage.input_tokens,
        "completion_tokens": reply.usage.output_tokens,
        "total_tokens": reply.usage.input_tokens + reply.usage.output_tokens,
    }
    return completion(
        reply.message, usage=usage, finish_reason=reply.finish_reason or "stop", model=model
    )
