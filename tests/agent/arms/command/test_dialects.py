"""A program of each dialect, on a model of its own API and on others, over real HTTP."""

import json
from pathlib import Path

import pytest

from agent.models.protocol import ModelReply
from agent.session.steps import from_record
from tests.agent.arms.command.programs import Program, commands, report, tiny
from tests.agent.arms.command.talking import SERVERS
from tests.agent.conftest import KEY
from tests.servers.openai_server import OpenAIServer
from tests.servers.strict import Anthropic, Said

DIALECTS = ["chat", "messages", "responses", "gemini"]


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["stream", ""])
@pytest.mark.parametrize("model", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_program_of_any_dialect_solves_the_task(
    tmp_path: Path, dialect: str, model: str, habit: str
) -> None:
    """Its requests satisfy the provider, and every call is metered with its cost."""
    kind, spec = SERVERS[model]
    strict = kind(commands)
    with OpenAIServer(strict) as server:
        base = server.url if model != "messages" else server.url.removesuffix("/v1")
        program = Program(tmp_path, tiny(dialect, habit), {**spec, "api_base": base})
        outcome = await program.run()
    assert strict.refused == []
    assert outcome.status == "submitted", outcome.detail
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    assert len(server.requests) == 4
    steps = [from_record(step) for step in program.journal.steps("a")]
    replies = [step.result for step in steps if isinstance(step.result, ModelReply)]
    assert [reply.usage.input_tokens for reply in replies] == [100] * 4
    assert all(reply.usage.cost_usd and reply.cost_source == "litellm" for reply in replies)
    if dialect == model == "gemini":
        assert json.dumps(server.requests[-1]).count('"thoughtSignature"') == 3
    if model == "gemini":
        counted = {(r.usage.cache_read_tokens, r.usage.output_tokens) for r in replies}
        assert counted == {(40, 20)}
        assert server.request_headers[-1]["x-goog-api-key"] == KEY
    assert report(outcome)["claimed_usd"] == 0.25
    assert report(outcome)["requested_models"] == {"claude-haiku-9": 1, "tiny-1": 3}


async def test_a_native_call_passes_without_loss(tmp_path: Path) -> None:
    """Thinking and the names of known features reach the provider as the program sent them, and
    thinking blocks return to it with their signatures. What no model names is counted instead."""

    def thinking(asked: object) -> Said:
        said = commands(asked)  # type: ignore[arg-type]
        return Said(said.text, said.calls, thinks=True)

    strict = Anthropic(thinking)
    with OpenAIServer(strict) as server:
        model = {"name": "anthropic/claude-sonnet-4-5", "api_base": server.url.removesuffix("/v1")}
        outcome = await Program(tmp_path, tiny("messages", "stream"), model).run()
    assert strict.refused == []
    assert outcome.status == "submitted", outcome.detail
    last = server.requests[-1]
    assert last["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert "metadata" not in last
    assert report(outcome)["dropped_fields"] == {"metadata": len(server.requests)}
    assert last["model"] == "claude-sonnet-4-5"
    assert last["messages"][1]["content"][0]["type"] == "thinking"
    assert server.request_headers[-1]["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert server.request_headers[-1]["x-api-key"] == KEY
