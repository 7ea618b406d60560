"""A fuzz of the door of providers: odd answers, odd figures, over HTTP into a real journal."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import ModelError
from agent.gateway.calls import Calls
from agent.journal import Attempt, Journal
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import Sending
from agent.models.protocol import Foreign, ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.agent.arms.conftest import make_repository
from tests.agent.attempts import open_session
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers.postgres import PostgresServer
from tests.servers.providers import Listener, answer_in
from tests.waiting import no_sleep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

HELLO = [{"role": "user", "content": "Hello."}]
MODELS = {
    "chat": {"name": "openai/gpt-4o"},
    "messages": {"name": "anthropic/claude-sonnet-4-5"},
    "responses": {"name": "openai/gpt-5-mini", "api": "responses"},
}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": HELLO},
    "messages": {"messages": HELLO, "max_tokens": 100},
    "responses": {"input": HELLO},
}
ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["12", "-1", "1e999", "NaN", "\ud800"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["text", "type", "cost", "id"]), inner, max_size=3),
    ),
    max_leaves=5,
)
COUNT = st.one_of(st.integers(0, 5_000), st.integers(0, 5_000), ODD)
USAGE = st.one_of(
    ODD,
    st.dictionaries(
        st.sampled_from(
            [
                *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens"),
                *("output_tokens", "cached_tokens", "cache_read_input_tokens", "cost", "is_byok"),
                *("cache_creation_input_tokens", "reasoning_tokens", "prompt_cache_hit_tokens"),
            ]
        ),
        COUNT,
        max_size=6,
    ),
    st.fixed_dictionaries(
        {
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "input_tokens": COUNT,
            "output_tokens": COUNT,
        },
        optional={
            "total_tokens": COUNT,
            "cost": COUNT,
            "cost_details": st.one_of(ODD, st.fixed_dictionaries({"upstream_inference_cost": ODD})),
            "prompt_tokens_details": st.one_of(
                ODD, st.fixed_dictionaries({"cached_tokens": COUNT})
            ),
            "completion_tokens_details": st.one_of(
                ODD, st.fixed_dictionaries({"reasoning_tokens": COUNT})
            ),
        },
    ),
)
FUNCTION = st.one_of(ODD, st.fixed_dictionaries({"name": ODD, "arguments": ODD}))
CALL = st.one_of(ODD, st.fixed_dictionaries({"id": ODD, "type": ODD, "function": FUNCTION}))
PARTS = st.lists(st.one_of(ODD, st.fixed_dictionaries({"type": ODD, "text": ODD})), max_size=3)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "user", None]), "content": st.one_of(PARTS, ODD)},
    optional={"tool_calls": st.one_of(ODD, st.lists(CALL, max_size=3)), "reasoning_content": ODD},
)
CHOICE = st.fixed_dictionaries(
    {"message": st.one_of(MESSAGE, ODD)}, optional={"finish_reason": ODD}
)
USE = st.fixed_dictionaries({"type": st.just("tool_use"), "id": ODD, "name": ODD, "input": ODD})
ITEM = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "reasoning", "next_year"])},
    optional={"content": PARTS, "name": ODD, "arguments": ODD, "call_id": ODD, "summary": ODD},
)
ANSWERS: dict[str, Any] = {
    "chat": st.builds(
        lambda choices, usage, fields: answer_in("chat", usage, choices=choices, **fields),
        st.lists(CHOICE, min_size=1, max_size=3),
        USAGE,
        st.fixed_dictionaries({}, optional={"model": ODD, "id": ODD, "created": ODD}),
    ),
    "messages": st.builds(
        lambda content, usage, reason: answer_in(
            "messages", usage, content=content, stop_reason=reason
        ),
        st.lists(
            st.one_of(ODD, USE, st.fixed_dictionaries({"type": st.just("text"), "text": ODD})),
            min_size=1,
            max_size=3,
        ),
        USAGE,
        ODD,
    ),
    "responses": st.builds(
        lambda output, usage, status: answer_in("responses", usage, output=output, status=status),
        st.lists(st.one_of(ODD, ITEM), min_size=1, max_size=3),
        USAGE,
        ODD,
    ),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def journal(request: Any, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "sqlite":
        yield Journal.open(f"sqlite:///{tmp_path}/journal.sqlite")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield Journal.open(server.create_database())


async def _call(
    journal: Journal, attempt: str, model: LiteLLMModel, foreign: Foreign | None, folder: Path
) -> ModelReply:
    journal.start(Attempt(attempt, "experiment", "arm", "instance", 0, "{}"))
    workspaces = HostWorkspaces(make_repository)
    async with open_session(journal, folder, model, attempt, workspaces=workspaces) as session:
        if foreign is None:
            return await session.call(ModelRequest(HELLO))
        return await Calls(session.scope("agent")).call(foreign, "", "m")


@pytest.mark.parametrize("asks", ["arm", "program"])
@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_a_paid_answer_is_not_lost_to_its_figures(
    journal: Journal,
    provider: Listener,
    tmp_path: Path,
    dialect: str,
    asks: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever an answer holds, it is asked for once, taken, and booked: at its cost where that is
    known, and at its reservation where it is not. Its replay is the same answer."""
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "throw-away")
    base = provider.address if dialect == "messages" else f"{provider.address}/v1"
    spec = LiteLLMSpec.model_validate({**MODELS[dialect], "api_base": base})
    model = LiteLLMModel(spec, Sending(sleep=no_sleep))
    numbers = itertools.count()

    with asyncio.Runner() as runner:

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(ANSWERS[dialect])
        def check(answer: dict[str, Any]) -> None:
            provider.answer = lambda sent: answer
            provider.sent.clear()
            foreign = Foreign(dialect, BODIES[dialect], {}) if asks == "program" else None  # type: ignore[arg-type]
            attempt = f"{dialect}-{asks}-{next(numbers)}"
            try:
                reply = runner.run(_call(journal, attempt, model, foreign, tmp_path / "blobs"))
            except ModelError:
                # An answer without anything in it may be asked for again, and is paid each time.
                holder = {"chat": "choices", "messages": "content", "responses": "output"}[dialect]
                assert not any(isinstance(each, dict) for each in answer[holder])
                return
            assert len(provider.sent) == 1
            account = journal.account(attempt)
            assert account.calls_billed == 1
            assert account.billed_usd is not None
            if reply.usage.cost_usd is not None:
                assert account.billed_usd == pytest.approx(reply.usage.cost_usd, abs=1e-9)
            again = runner.run(_call(journal, attempt, model, foreign, tmp_path / "blobs"))
            assert len(provider.sent) == 1
            assert again == reply

        check()
