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
from agent.models.requests import Dialect, ParsedRequest
from agent.models.retry import EmptyAnswer, classify
from agent.models.spec import LiteLLMSpec

_OUTPUT_LIMIT: dict[Dialect, str] = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}


_LIMITS = frozenset(_OUTPUT_LIMIT.values()) | {"max_tokens"}


class ProviderError(Exception):
    """A response of a provider other than an answer, for the retry policy."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.text)
        self.status_code = response.status_code
        self.response = response


def dialects_of(spec: LiteLLMSpec) -> frozenset[Dialect]:
    """Return the dialects whose requests the provider of a model takes as they are.

    A custom server need not have all APIs of the provider that it imitates.
    """
    provider = spec.name.partition("/")[0]
    if provider == "anthropic":
        return frozenset({"messages"})
    if provider != "openai":
        return frozenset()
    return frozenset({spec.api}) if spec.api_base else frozenset({"chat", "responses"})


def body(spec: LiteLLMSpec, foreign: Foreign, max_tokens: int) -> Body:
    """Return what is sent: the request with the declared model, its settings and a limit."""
    asked = foreign.asked
    name = spec.name.partition("/")[2].removeprefix("responses/")
    sent = {**_limited(spec, foreign.dialect, asked, max_tokens), "model": name}
    sent.update(_declared(spec, foreign))
    if foreign.dialect == "chat":
        # LiteLLM adds this field in programs, and no provider knows it.
        own = "provider_specific_fields"
        sent["messages"] = [
            {name: each for name, each in message.items() if name != own}
            for message in sent["messages"]
        ]
    extra = spec.extra.items()
    return {**sent, **{name: each for name, each in extra if name not in OUTPUT_LIMITS}}


def _limited(spec: LiteLLMSpec, dialect: Dialect, asked: ParsedRequest, max_tokens: int) -> Body:
    """Return the body of a request with one limit on its output: the lower of two."""
    name = _OUTPUT_LIMIT[dialect]
    if dialect == "chat" and spec.api_base:
        name = "max_tokens"  # the only one that all servers of one's own know
    limit = min(max_tokens, asked.output_limit or max_tokens)
    body = {key: each for key, each in asked.body.items() if key not in _LIMITS}
    thinking = body.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= limit:  # providers demand less than the output
        body["thinking"] = {**thinking, "budget_tokens": limit // 2}
    return {**body, name: limit}


def _declared(spec: LiteLLMSpec, foreign: Foreign) -> Body:
    settings: Body = {}
    if spec.temperature is not None:
        settings["temperature"] = spec.temperature
    if effort := spec.reasoning_effort:
        match foreign.dialect:
            case "chat":
                settings["reasoning_effort"] = effort
            case "messages":
                settings["output_config"] = {
                    **(foreign.asked.body.get("output_config") or {}),
                    "effort": effort,
                }
            case "responses":
                reasoning = foreign.asked.body.get("reasoning") or {}
                settings["reasoning"] = {**reasoning, "effort": effort}
    return settings


async def post(spec: LiteLLMSpec, foreign: Foreign, sent: Body) -> ProviderAnswer:
    """Send a request once. Return the answer.

    Raises:
        ProviderError: the provider answered with an error.
        EmptyAnswer: the provider's answer is none.
        ConnectionLost: there was no answer.
    """
    url, own = dialects.address(foreign.dialect, spec.api_base)
    headers = {**foreign.asked.headers, **own, "content-type": "application/json"}
    content = to_json(sent)  # in half the time of httpx's own, which counts for 100 kB
    try:
        response = await http.client().post(
            url, content=content, headers=headers, timeout=spec.timeout_s
        )
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError as error:
        raise ConnectionLost(error) from error
    if not response.is_success:
        raise ProviderError(response)
    try:
        return read_answer(foreign.dialect, response.json())
    except (ValueError, RecursionError):
        raise EmptyAnswer("the answer is not JSON") from None
    except NoAnswer as error:
        raise EmptyAnswer(str(error)) from None


class ConnectionLost(Exception):
    """A provider did not answer. The retry policy knows such an error by its status."""

    status_code = 500

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


Tell = Callable[[str], None]
"""Receives each part of a text as it is generated."""


async def streamed(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
    """Return the response of LiteLLM, as it would be without streaming.

    Raises:
        EmptyAnswer: the answer broke off.
    """
    _, chunks = await _told(litellm, arguments, tell)
    response = litellm.stream_chunk_builder(chunks, messages=arguments["messages"])
    # The name that the provider gave, where it gave one.
    named = chunks[0]._hidden_params.get("provider_response_model")
    response.model = named or response.model
    if not any(getattr(chunk, "usage", None) for chunk in chunks):
        response.usage = None  # LiteLLM counts by itself where nothing is reported
    return response


async def streamed_by_responses(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
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

    stream, _ = await _told(litellm, arguments, tell)
    ended = stream.completion_stream.streaming_response.completed_response
    if ended is None:
        raise EmptyAnswer("the answer broke off")
    http.note(ended.response.model_dump(mode="json"))
    handler: Any = LiteLLMResponsesTransformationHandler()  # type: ignore[no-untyped-call]
    return handler.transform_response(
        model=stream.model,
        raw_response=ended.response,
        model_response=litellm.ModelResponse(),
        logging_obj=stream.logging_obj,
        request_data={},
        messages=arguments["messages"],
        optional_params={},
        litellm_params={},
        encoding=None,
    )


async def _told(
    litellm: ModuleType, arguments: dict[str, Any], tell: Tell
) -> tuple[Any, list[Any]]:
    """Stream an answer to its end, and pass its text to `tell` as it arrives.

    Return the stream and its chunks.

    Raises:
        EmptyAnswer: the stream ended early.
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
        if chunks and failure is not None and failure.is_free:  # what it has generated is not
            raise EmptyAnswer(f"the answer broke off: {failure.message}") from error
        raise
    if stream.received_finish_reason is None:  # LiteLLM adds one to the last chunk
        raise EmptyAnswer("the answer broke off")
    return stream, chunks
