"""The findings of one request to a model before a run, with the words of real servers."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from agent.models.http import load_in_thread
from flows.display.errors import UsageError
from flows.experiments import declaration, probe
from flows.experiments.cells import Cell, Place
from flows.experiments.plan import load
from tests.flows.experiments.test_models import OWN
from tests.servers import openai_server as api
from tests.servers.providers import Listener, answer_in, dialect_at

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "input_tokens": 9, "output_tokens": 2}
TOOLS = "switch on the tool calls of the server, or declare native_tools: false"
TEMPLATE = "start the server with another chat template"
NAME = "check the model's name and api_base"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model was asked yet, no key is known, and a busy machine has time."""
    monkeypatch.setattr(probe, "_passed", {})
    monkeypatch.setattr(probe, "LIMIT_S", 100.0)
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener(lambda sent: answer_in(dialect_at(sent.path), USAGE))
    yield made
    made.close()


def declare(*arms: dict[str, Any], **fields: Any) -> declaration.Experiment:
    named = [{"name": name, **arm} for name, arm in zip("abcd", arms, strict=False)]
    return declaration.parse({"name": "x", "environment": "host", "arms": named, **fields}, "test")


async def find(experiment: declaration.Experiment) -> list[tuple[str, str]]:
    """Return the level and the text of each finding."""
    found = await probe.ask_models(experiment, experiment.arms)
    return [(each.level, each.what) for each, _ in found]


HOSTILE: dict[str, tuple[api.Reply, str, str]] = {
    "no key": (api.unauthorised(), "problem", "set the provider's key in .*OPENAI_API_KEY"),
    "forbidden": (api.error(403, "no"), "problem", "the key is not allowed to use this model"),
    "no such model": (
        api.error(404, 'model "mine" not found, try pulling it first'),
        "problem",
        rf'model "mine" not found, try pulling it first \({NAME}',
    ),
    "the name is invalid": (
        api.error(400, "Invalid model name passed in model=mine"),
        "problem",
        NAME,
    ),
    "no such path": (api.Reply("404 page not found", 404), "problem", NAME),
    "no post": (api.Reply("Method Not Allowed", 405), "problem", NAME),
    "redirect": (
        api.Reply("", 307, {"Location": "https://elsewhere.invalid/v1"}),
        "problem",
        "status 307 to https://elsewhere.invalid/v1 .*correct api_base",
    ),
    "page": (
        api.Reply("<html>Welcome</html>"),
        "problem",
        "does not have this API: <html>Welcome</html>",
    ),
    "text": (
        api.Reply("Ollama is running"),
        "problem",
        "does not have this API: Ollama is running",
    ),
    "other JSON": (api.Reply({"error": "Unexpected endpoint"}), "problem", "Unexpected endpoint"),
    "no choices": (api.empty_choices(), "problem", "the answer has no choices"),
    "Ollama": (api.error(400, "smollm2:135m does not support tools"), "problem", TOOLS),
    "vLLM": (
        api.error(
            400,
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
        ),
        "problem",
        f'"auto" tool choice requires .*{TOOLS}',
    ),
    "llama.cpp": (api.error(500, "tools param requires --jinja flag"), "problem", TOOLS),
    "alternating roles": (
        api.error(500, "Conversation roles must alternate user/assistant/user/assistant/..."),
        "problem",
        f"{TEMPLATE}, or declare native_tools: false",
    ),
    "LM Studio": (
        api.Reply(
            {"error": "Error rendering prompt with jinja template: System role not supported"}, 400
        ),
        "problem",
        TEMPLATE,
    ),
    "window": (
        api.error(400, "max_tokens is too large: 16. The maximum context length is 8 tokens"),
        "problem",
        "declare the model's context_tokens or max_tokens",
    ),
    "quota": (api.out_of_quota(), "problem", "exceeded your current quota"),
    "other refusal": (api.error(400, "Nein."), "problem", r"cannot be used: Nein\.$"),
    "TLS": (
        api.error(400, "Client sent an HTTP request to an HTTPS server."),
        "problem",
        "starts with https://",
    ),
    "loading": (api.error(503, "Loading model"), "note", "Loading model.*the run continues"),
    "busy": (api.rate_limited("60"), "note", "the run continues"),
    "overloaded": (api.error(529, "Overloaded"), "note", "the run continues"),
    "broken": (api.server_error(), "note", "The server had an error.*the run continues"),
    "cut": (api.dropped(), "note", "the run continues"),
}


@pytest.mark.parametrize(("reply", "level", "words"), HOSTILE.values(), ids=list(HOSTILE))
async def test_a_server_that_does_not_answer_is_one_line(
    reply: api.Reply, level: str, words: str
) -> None:
    """An arm and a program have the same. What may pass prevents no run."""
    with api.OpenAIServer([], on_probe=lambda _: reply) as server:
        own = {"name": "openai/mine", "api_base": server.url}
        program = {"agent": "command", "options": {"recipe": "opencode"}}
        experiment = declare({"agent": "mini"}, program, model=own)
        found = await find(experiment)
    assert [each for each, _ in found] == [level, level]
    pattern = "does not have this API" if reply.status == 200 and level == "problem" else words
    own_arm, of_program = (text for _, text in found)
    assert re.search(words, own_arm), own_arm
    assert re.search(pattern, of_program), of_program
    assert "\n" not in own_arm + of_program


async def test_an_address_without_tls_is_named(listener: Listener) -> None:
    """The connection alone does not show it."""
    model = {"name": "openai/mine", "api_base": f"{listener.address}/v1".replace("http:", "https:")}
    [(level, text)] = await find(declare({"agent": "mini", "model": model}))
    assert level == "problem"
    assert "its api_base starts with http://" in text


async def test_a_wrong_name_or_address_comes_with_a_proposal(listener: Listener) -> None:
    """The names that the server lists, and the usual end of an address."""
    listener.models = {"data": [{"id": name} for name in "pqrstuv"]}
    listener.answer = lambda sent: {"error": {"message": "model mine not found"}}
    model = {"name": "openai/mine", "api_base": listener.address}
    [(_, text)] = await find(declare({"agent": "mini", "model": model}))
    assert text.endswith(
        "; the server lists p, q, r, s, t and 2 more; api_base usually ends in /v1"
    )


async def test_a_server_that_loads_its_model_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no failure."""
    await load_in_thread()
    monkeypatch.setattr(probe, "LIMIT_S", 0.5)
    arms = [
        {"agent": "mini", "model": {"name": f"openai/{name}", "api_base": OWN}} for name in "abcd"
    ]
    found = await find(declare(*arms))
    assert [level for level, _ in found] == ["note"] * 4
    assert "did not answer within" in found[0][1]


async def test_each_model_is_asked_as_its_arms_ask(listener: Listener) -> None:
    """With tools or without, in the dialect of a program, once for all arms, all roles."""
    own = {"name": "openai/mine", "api_base": f"{listener.address}/v1"}
    no_tools = {**own, "name": "openai/other", "native_tools": False}
    at_anthropic = {"name": "anthropic/mine", "api_base": listener.address}
    experiment = declare(
        {"agent": "mini"},
        {
            "agent": "durable",
            "options": {"profile": {"roles": {"adjudicator": {"model": no_tools}}}},
        },
        {"agent": "command", "options": {"recipe": "claude-code"}, "model": at_anthropic},
        {"agent": "gold"},
        model=own,
    )
    found = await find(experiment)
    assert {level for level, _ in found} == {"ok"}
    window = "window in tokens: unknown (declare context_tokens); price: unknown"
    assert found[0][1] == f"openai/mine answers and accepts tools; {window}"
    assert await find(experiment) == found
    asked = sorted(
        (sent.path, sent.body["model"], "tools" in sent.body, sent.body["max_tokens"])
        for sent in listener.sent
    )
    assert asked == [
        ("/v1/chat/completions", "mine", True, 16),
        ("/v1/chat/completions", "other", False, 16),
        ("/v1/messages", "mine", True, 16),
    ]


async def test_a_history_that_needs_thoughts_is_left_out(listener: Listener) -> None:
    """Some servers want their own thoughts with a call of a tool, and a probe has none."""

    def script(body: dict[str, Any]) -> api.Reply:
        if len(body["messages"]) > 2:
            return api.error(400, "reasoning_content is missing in message 2")
        return api.text("Yes.")

    with api.OpenAIServer([], on_probe=script) as server:
        own = {"name": "openai/mine", "api_base": server.url}
        assert [level for level, _ in await find(declare({"agent": "mini", "model": own}))] == [
            "ok"
        ]


@pytest.mark.parametrize(
    ("status", "models", "level", "words"),
    [
        (200, {"data": [{"id": "mine"}]}, "ok", "is listed by its server; .*price: declared"),
        (200, {"data": [{"id": "other"}]}, "note", "is not in the list"),
        (401, {"error": {"message": "Incorrect API key"}}, "problem", "Incorrect API key .*OPENAI"),
        (401, {"error": {"message": "Missing scopes: model.read"}}, "ok", "is not asked"),
        (404, None, "ok", "is not asked, since an answer has a price"),
        (200, "Welcome", "problem", "does not have this API"),
    ],
)
async def test_a_request_with_a_price_is_never_sent(
    listener: Listener, status: int, models: Any, level: str, words: str
) -> None:
    """No budget and no bill would hold it. The list of models is free."""
    listener.status, listener.models = status, models
    price = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    model = {"name": "openai/mine", "api_base": f"{listener.address}/v1", **price}
    [(found, text)] = await find(declare({"agent": "mini", "model": model}))
    assert found == level
    assert re.search(words, text), text
    assert listener.sent == []


async def test_a_window_that_the_output_fills_is_named(listener: Listener) -> None:
    """Wherever the window is known from. Calls get what is left, so the run continues."""
    listener.models = {"data": [{"id": "mine", "max_model_len": 4096}]}
    model = {"name": "openai/mine", "api_base": f"{listener.address}/v1", "max_tokens": 4096}
    [(level, text)] = await find(declare({"agent": "mini", "model": model}))
    assert level == "note"
    assert "max_tokens (4,096) fill its window of 4,096 tokens" in text


async def test_only_models_with_work_are_asked(listener: Listener) -> None:
    """A run of one arm asks nothing of the others. A problem is asked about again."""
    listener.status = 403
    own = {"name": "openai/mine", "api_base": f"{listener.address}/v1"}
    experiment = declare({"agent": "mini"}, {"agent": "gold"}, model=own)
    instance = load(experiment)[0]
    mini, gold = (Cell(experiment, arm, instance, 0, Place("host")) for arm in experiment.arms)
    await probe.refuse_unusable_models(experiment, [gold])
    assert listener.sent == []
    for _ in range(2):
        with pytest.raises(UsageError, match="^arm a: openai/mine cannot be used"):
            await probe.refuse_unusable_models(experiment, [mini, gold])
    assert len(listener.sent) == 2
    listener.status = 200
    await probe.refuse_unusable_models(experiment, [mini])
    assert not probe.is_due(experiment)
