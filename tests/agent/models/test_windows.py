"""The context window: its sources, and the refusals that it explains."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.models.ceilings import estimate_tokens
from agent.models.litellm_api import LiteLLMModel
from agent.models.protocol import Foreign, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers import openai_server as api
from tests.servers.providers import Listener, answer_in

WINDOW = 8192
SHORT = [{"role": "user", "content": "Hello."}]
LONG = [{"role": "user", "content": "word " * 5_000}]


async def ask(server: Any, messages: list[Any], *, program: bool = False, **fields: Any) -> Any:
    spec = {"name": "openai/local", "api_base": server.url, "max_retries": 0, **fields}
    model = LiteLLMModel(LiteLLMSpec.model_validate(spec))
    foreign = Foreign("chat", {"messages": messages}, {}) if program else None
    return await model.complete(ModelRequest([] if program else messages, foreign=foreign))


@pytest.mark.parametrize(
    ("program", "words"), [(False, "Überlauf"), (True, "Bad request"), (True, "")]
)
async def test_a_refusal_near_a_known_window_is_an_overflow(program: bool, words: str) -> None:
    """The words of the server do not matter, since every server has its own."""
    with (
        api.OpenAIServer([api.error(400, words)]) as server,
        pytest.raises(ContextWindowExceeded),
    ):
        await ask(server, LONG, program=program, context_tokens=WINDOW)


@pytest.mark.parametrize("program", [False, True])
async def test_a_refusal_far_from_the_window_is_what_the_server_says(program: bool) -> None:
    """It is one request that is wrong, and no long conversation."""
    with (
        api.OpenAIServer([api.error(400, "System role not supported")]) as server,
        pytest.raises(RequestRefused, match="System role not supported"),
    ):
        await ask(server, SHORT, program=program, context_tokens=WINDOW)


LARGE_OUTPUTS = [
    f"'max_tokens' is too large: 16384. The maximum context length is {WINDOW} tokens",
    f"This model's maximum context length is {WINDOW} tokens. However, you requested 18065 tokens "
    "(1681 in the messages, 16384 in the completion).",
    f"Requested token count exceeds the model's maximum context length of {WINDOW} tokens. You "
    "requested 18065 tokens: 1681 from the input messages and 16384 tokens for the completion.",
    f"`inputs` tokens + `max_new_tokens` must be <= {WINDOW}. Given: 1681 `inputs` tokens and "
    "16384 `max_new_tokens`",
]


@pytest.mark.parametrize("program", [False, True])
@pytest.mark.parametrize("words", LARGE_OUTPUTS)
async def test_an_output_limit_that_does_not_fit_is_no_long_conversation(
    words: str, program: bool
) -> None:
    """The error names the setting to declare."""
    with (
        api.OpenAIServer([api.error(400, words)]) as server,
        pytest.raises(RequestRefused, match="declare the model's context_tokens"),
    ):
        await ask(server, SHORT, program=program)


OVERFLOWS = [
    "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "Trying to keep the first 9031 tokens when context the overflows",
    "The decoder prompt (length 9031) is longer than the maximum model length of 8192",
    "The input (9031 tokens) is longer than the model's context length (8192 tokens)",
    "`inputs` tokens + `max_new_tokens` must be <= 8192",
    "Input length (9031 tokens) exceeds the maximum allowed length (8192 tokens).",
    "you requested 9031 tokens (8931 in the messages, 100 in the completion), and the maximum "
    "context length is 8192",
    "prompt is too long: 9031 tokens > 8192 maximum",
]


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("words", OVERFLOWS)
async def test_the_words_of_a_server_tell_an_overflow_of_an_unknown_window(
    words: str, status: int
) -> None:
    """It is final, and so not repeated, whatever the status is."""
    with (
        api.OpenAIServer([api.error(status, words)] * 2) as server,
        pytest.raises(ContextWindowExceeded),
    ):
        await ask(server, SHORT, max_retries=1)
    assert len(server.requests) == 1


@pytest.mark.parametrize("content", ["a" * 6_000, "a" * 60_000, "語" * 3_000])
@pytest.mark.parametrize("program", [False, True])
async def test_the_output_limit_is_what_the_window_leaves(program: bool, content: str) -> None:
    """A limit is always sent, and with the input it fits as long as there is room for an answer."""
    messages = [{"role": "user", "content": content}]
    with api.OpenAIServer([api.text("Hello.")]) as server:
        await ask(server, messages, program=program, context_tokens=WINDOW, max_tokens=6_000)
        sent = server.requests[0]
    foreign = Foreign("chat", {"messages": messages}, {}) if program else None
    size = estimate_tokens(ModelRequest(messages, foreign=foreign))
    assert sent["max_tokens"] == min(6_000, max(WINDOW - size, 256))


LISTS: list[dict[str, Any]] = [
    {"data": [{"id": "local", "max_model_len": WINDOW}]},
    {"data": [{"id": "local", "meta": {"n_ctx": WINDOW, "n_ctx_train": 2**17}}]},
    {"data": [{"id": "other", "max_model_len": 99}, {"id": "local", "context_length": WINDOW}]},
    {"data": [{"id": "/models/x.gguf", "meta": {"n_ctx": WINDOW}}]},
]


@pytest.fixture
def listing() -> Iterator[Listener]:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    listener = Listener(lambda sent: answer_in("chat", usage))
    yield listener
    listener.close()


@pytest.mark.parametrize("models", LISTS)
async def test_a_server_is_asked_for_its_window(listing: Listener, models: dict[str, Any]) -> None:
    """vLLM, llama.cpp and others list it, so it need not be declared."""
    listing.models = models
    spec = {"name": "openai/local", "api_base": f"{listing.address}/v1"}
    model = LiteLLMModel(LiteLLMSpec.model_validate(spec))
    await model.complete(ModelRequest(LONG))
    size = estimate_tokens(ModelRequest(LONG))
    assert listing.sent[0].body["max_tokens"] == max(WINDOW - size, 256)


@pytest.mark.parametrize(
    "models",
    [
        None,
        [],
        {"data": 5},
        {"data": [{"id": "local", "max_model_len": "many"}]},
        {"data": [{}] * 2},
    ],
)
async def test_a_server_that_does_not_say_is_taken_as_it_is(listing: Listener, models: Any) -> None:
    """Then the default limit is sent."""
    listing.models = models
    spec = {"name": "openai/local", "api_base": f"{listing.address}/v1"}
    await LiteLLMModel(LiteLLMSpec.model_validate(spec)).complete(ModelRequest(LONG))
    assert listing.sent[0].body["max_tokens"] == 16_384


async def test_lm_studio_lists_the_loaded_window_elsewhere(listing: Listener) -> None:
    """Its list in OpenAI's form does not state it. A model's own maximum is not the window."""
    listed = {"id": "local", "max_context_length": 131_072, "loaded_context_length": WINDOW}
    listing.models = {"data": [{"id": "local"}]}
    listing.lists["/api/v0/models"] = {"data": [listed]}
    spec = {"name": "openai/local", "api_base": f"{listing.address}/v1"}
    await LiteLLMModel(LiteLLMSpec.model_validate(spec)).complete(ModelRequest(SHORT))
    assert listing.sent[0].body["max_tokens"] == WINDOW // 4


@pytest.mark.parametrize(
    ("name", "key"), [("openai/local", "Bearer throw-away"), ("hosted_vllm/local", None)]
)
async def test_only_a_server_of_the_provider_gets_its_key(
    listing: Listener, name: str, key: str | None
) -> None:
    """A server that is asked for its window may belong to somebody else."""
    listing.models = {"data": [{"id": "local", "max_model_len": WINDOW}]}
    spec = {"name": name, "api_base": f"{listing.address}/v1"}
    await LiteLLMModel(LiteLLMSpec.model_validate(spec)).complete(ModelRequest(SHORT))
    assert listing.keys == [key]


@pytest.mark.parametrize("declared", [{"context_tokens": 4096}, {"extra": {"num_ctx": 4096}}])
async def test_ollama_is_sent_the_declared_window(
    listing: Listener, declared: dict[str, Any]
) -> None:
    """It would cut the conversation to a window of its own. Nothing else is asked of it."""
    message = {"role": "assistant", "content": "Hello."}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2}
    listing.answer = lambda sent: {"model": "local", "message": message, **end}
    spec = {"name": "ollama_chat/local", "api_base": listing.address, **declared}
    reply = await LiteLLMModel(LiteLLMSpec.model_validate(spec)).complete(ModelRequest(SHORT))
    assert [sent.path for sent in listing.sent] == ["/api/chat"]
    assert listing.sent[0].body["options"] == {"num_ctx": 4096, "num_predict": 1024}
    assert reply.usage.input_tokens == 9
