"""Requests of other programs in their own dialect, and answers while they are generated."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
from pydantic_core import to_json

from agent.models import dialects, http
from agent.models.answers import NoAnswer, ProviderAnswer, read_answer
from agent.models.ceilings import OUTPUT_LIMITS
from agent.models.dialects import Body
from agent.models.protocol import Foreign
from agent.models.requests import Dialect
from agent.models.retry import EmptyAnswer, classify
from agent.models.spec import LiteLLMSpec

_OUTPUT_LIMIT: dict[Dialect, str] = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}
_LIMITS = frozenset(_OUTPUT_LIMIT.values()) | {"max_tokens"}
_PROVIDERS: dict[Dialect, str] = {"messages": "anthropic", "gemini": "gemini"}
"""The providers of the dialects that are not OpenAI's."""


class ProviderError(Exception):
    """A response of a provider other than an answer, for the retry policy."""

    def __init__(self, response: httpx.Response, dialect: Dialect) -> None:
        super().__init__(response.text)
        self.llm_provider = _PROVIDERS.get(dialect, "openai")
        self.status_code = response.status_code
        self.response = response


def dialects_of(spec: LiteLLMSpec) -> frozenset[Dialect]:
    """Return the dialects whose requests the provider of a model takes as they are.

    A custom server need not have all APIs of the provider that it imitates.
    """
    provider = spec.name.partition("/")[0]
    for dialect, name in _PROVIDERS.items():
        if provider == name:
            return frozenset({dialect})
    if provider != "openai":
        return frozenset()
    return frozenset({spec.api}) if spec.api_base else frozenset({"chat", "responses"})


def body(spec: LiteLLMSpec, foreign: Foreign, max_tokens: int) -> Body:
    """Return what is sent: the request with the declared model, its settings and a limit."""
    fields = foreign.asked.body
    sent = {name: value for name, value in fields.items() if name not in _LIMITS}
    limit = min(max_tokens, foreign.asked.output_limit or max_tokens)
    if foreign.dialect == "gemini":
        config = {**(fields.get("generationConfig") or {}), "maxOutputTokens": limit}
        config_of_spec, others = dialects.gemini_settings(spec)
        return {**sent, "generationConfig": {**config, **config_of_spec}, **others}
    thinking = sent.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= limit:  # providers require less than the output
        sent["thinking"] = {**thinking, "budget_tokens": limit // 2}
    # A custom server is only sure to have the oldest name of the limit.
    is_custom_chat = foreign.dialect == "chat" and spec.api_base
    sent["max_tokens" if is_custom_chat else _OUTPUT_LIMIT[foreign.dialect]] = limit
    sent["model"] = spec.name.partition("/")[2].removeprefix("responses/")
    if spec.temperature is not None:
        sent["temperature"] = spec.temperature
    effort = spec.reasoning_effort
    match foreign.dialect:
        case "chat":
            if effort:
                sent["reasoning_effort"] = effort
            # LiteLLM adds this field in programs, and providers reject it.
            unknown = "provider_specific_fields"
            sent["messages"] = [
                {name: value for name, value in message.items() if name != unknown}
                for message in sent["messages"]
            ]
        case "messages" if effort:
            sent["output_config"] = {**(fields.get("output_config") or {}), "effort": effort}
        case "responses" if effort:
            sent["reasoning"] = {**(fields.get("reasoning") or {}), "effort": effort}
    return sent | {name: value for name, value in spec.extra.items() if name not in OUTPUT_LIMITS}


async def post(spec: LiteLLMSpec, foreign: Foreign, sent: Body) -> ProviderAnswer:
    """Send a request once. Return the answer.

    Raises:
        ProviderError: the provider answered with an error.
        EmptyAnswer: the response of the provider contains no answer.
        ConnectionLost: there was no answer.
    """
    url, key = dialects.address(foreign.dialect, spec.api_base, spec.name)
    headers = {**foreign.asked.headers, **key, "content-type": "application/json"}
    content = to_json(sent)  # twice as fast as httpx, which matters for 100 kB
    try:
        response = await http.client().post(
            url, content=content, headers=headers, timeout=spec.timeout_s
        )
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError as error:
        raise ConnectionLost(error) from error
    if not response.is_success:
        raise ProviderError(response, foreign.dialect)
    try:
        return read_answer(foreign.dialect, response.json())
    except (ValueError, RecursionError):
        raise EmptyAnswer("the answer is not JSON") from None
    except NoAnswer as error:
        raise EmptyAnswer(str(error)) from None


class ConnectionLost(Exception):
    """A provider did not answer. The retry policy recognises such an error by its status."""

    status_code = 500

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


Tell = Callable[[str], None]
"""Receives each part of a text as it is generated."""


async def stream_completion(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
    """Return the response of LiteLLM, as it would be without streaming.

    Raises:
        EmptyAnswer: the answer broke off, or has no choices.
    """
    stream, chunks = await _receive(litellm, arguments, tell)
    # Without a choice, LiteLLM makes an empty one up, which no role starts.
    if not any(choice.delta.role for chunk in chunks for choice in chunk.choices):
        raise EmptyAnswer("the answer has no choices")
    response = litellm.stream_chunk_builder(chunks, messages=arguments["messages"])
    name_of_provider = chunks[0]._hidden_params.get("provider_response_model")
    response.model = name_of_provider or response.model
    # If the provider reports nothing, LiteLLM counts, and adds a chunk with its own figures.
    if not any(getattr(chunk, "usage", None) for chunk in stream.chunks):
        response.usage = None
    return response


async def stream_responses(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
    """Return the response of OpenAI's Responses API, as it would be without streaming.

    The last event of its stream holds the whole response. Built from chunks, it would lack the
    reasoning that the next request has to repeat.

    Raises:
        EmptyAnswer: the answer broke off.
        ValueError: the answer holds reasoning only, or nothing at all.
    """
    from litellm.completion_extras.litellm_responses_transformation.transformation import (
        LiteLLMResponsesTransformationHandler,
    )

    stream, _ = await _receive(litellm, arguments, tell)
    last_event = stream.completion_stream.streaming_response.completed_response
    if last_event is None:
        raise EmptyAnswer("the answer broke off")
    http.record_body(last_event.response.model_dump(mode="json"))
    handler: Any = LiteLLMResponsesTransformationHandler()  # type: ignore[no-untyped-call]
    return handler.transform_response(
        model=stream.model,
        raw_response=last_event.response,
        model_response=litellm.ModelResponse(),
        logging_obj=stream.logging_obj,
        request_data={},
        messages=arguments["messages"],
        optional_params={},
        litellm_params={},
        encoding=None,
    )


async def _receive(
    litellm: ModuleType, arguments: dict[str, Any], tell: Tell
) -> tuple[Any, list[Any]]:
    """Stream an answer to its end, and pass its text to `tell` as it arrives.

    Return the stream and its chunks.
    """
    stream = await litellm.acompletion(
        **arguments, stream=True, stream_options={"include_usage": True}
    )
    chunks: list[Any] = []
    try:
        async for chunk in stream:
            chunks.append(chunk)
            for choice in chunk.choices[:1]:
                if choice.delta.content:
                    tell(choice.delta.content)
    except Exception as error:
        failure = classify(error)
        if chunks and failure is not None and failure.is_free:  # the generated part is not free
            raise EmptyAnswer(f"the answer broke off: {failure.message}") from error
        raise
    # LiteLLM adds a reason to the last chunk. For Gemini, it has no other one.
    if stream.received_finish_reason is None and stream.intermittent_finish_reason is None:
        raise EmptyAnswer("the answer broke off")
    return stream, chunks
