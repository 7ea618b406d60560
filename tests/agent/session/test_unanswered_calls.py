"""What a call without an answer costs, from the provider's status to the ledger, over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AgentError
from agent.gateway.calls import Calls
from agent.journal import Account
from agent.models.litellm_api import LiteLLMModel
from agent.models.native import Tell
from agent.models.pacing import Sending
from agent.models.protocol import Foreign, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.agent.arms.conftest import make_repository
from tests.agent.attempts import begin, open_session
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers import openai_server as api
from tests.waiting import no_sleep

HELLO = [{"role": "user", "content": "Hello."}]


async def bill(
    folder: Path, address: str, asks: str, tell: Tell | None = None, **spec: Any
) -> tuple[Account, float]:
    """Make one call that fails. Return the bill of its attempt, and the reservation of a call."""
    declared = {"name": "openai/gpt-4o", "api_base": address, "max_retries": 2, **spec}
    model = LiteLLMModel(LiteLLMSpec.model_validate(declared), Sending(sleep=no_sleep, tell=tell))
    foreign = Foreign("chat", {"messages": HELLO}, {}) if asks == "program" else None
    journal, workspaces = begin(folder), HostWorkspaces(make_repository)
    async with open_session(journal, folder, model, workspaces=workspaces) as session:
        if foreign is None:
            asked = session.call(ModelRequest(HELLO))
        else:
            asked = Calls(session.scope("agent")).call(foreign, "", "m")
        with pytest.raises(AgentError):
            await asked
    reserved = model.ceiling_usd(ModelRequest([] if foreign else HELLO, foreign=foreign))
    assert reserved is not None
    return journal.account("a"), reserved


@pytest.mark.parametrize("asks", ["arm", "program"])
@pytest.mark.parametrize("status", [302, 400, 429, 503])
async def test_a_refusal_costs_nothing(tmp_path: Path, status: int, asks: str) -> None:
    """It gives its reservation back, also after the last retry, so refusals fill no budget."""
    with api.OpenAIServer(lambda body: api.error(status, "no")) as server:
        account, _ = await bill(tmp_path, server.url, asks)
        assert len(server.requests) == (3 if status in (429, 500, 503, 529) else 1)
    assert (account.billed_usd, account.calls_billed) == (0.0, 0)


@pytest.mark.parametrize("asks", ["arm", "program"])
@pytest.mark.parametrize(
    ("reply", "sent"),
    [
        (api.dropped(), 3),
        (api.empty_choices(), 3),
        (api.Reply("<html>login</html>"), 3),
        (api.slow(2, api.text("late")), 2),
        (api.error(504, "upstream timed out"), 2),
    ],
    ids=["cut", "no choices", "no JSON", "late", "gateway timeout"],
)
async def test_each_request_that_may_be_paid_is_billed(
    tmp_path: Path, reply: api.Reply, sent: int, asks: str
) -> None:
    """Every repetition has a reservation of its own, which nothing gives back."""
    with api.OpenAIServer(lambda body: reply) as server:
        account, reserved = await bill(tmp_path, server.url, asks, timeout_s=0.5)
        assert len(server.requests) == sent
    assert account.calls_billed == sent
    assert account.billed_usd == pytest.approx(sent * reserved)


@pytest.mark.parametrize("status", [400, 503])
async def test_an_error_after_the_first_words_is_billed(tmp_path: Path, status: int) -> None:
    """The words before it were generated, whatever status the provider then gives."""
    delta = {"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    error = {"error": {"message": "no", "code": status}}
    lines = [f"data: {json.dumps(each)}\n\n" for each in ({**chunk, "choices": [delta]}, error)]
    reply = api.Reply("".join(lines), headers={"Content-Type": "text/event-stream"})
    words: list[str] = []
    with api.OpenAIServer(lambda body: reply) as server:
        account, reserved = await bill(tmp_path, server.url, "arm", words.append)
        sent = len(server.requests)
    assert set(words) == {"Hel"}
    assert account.billed_usd == pytest.approx(sent * reserved)
