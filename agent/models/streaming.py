"""A model's answer while it is generated."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from agent.models import http
from agent.models.retry import EmptyAnswer, classify

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
