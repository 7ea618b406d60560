"""A model's answer while it is generated."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from agent.models.retry import EmptyAnswer

Tell = Callable[[str], None]
"""Receives each part of a text as it is generated."""


async def streamed(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
    """Return the response of LiteLLM, as it would be without streaming.

    Raises:
        EmptyAnswer: the answer broke off.
    """
    stream = await litellm.acompletion(
        **arguments, stream=True, stream_options={"include_usage": True}
    )
    chunks = []
    async for chunk in stream:
        chunks.append(chunk)
        for choice in chunk.choices[:1]:
            if choice.delta.content:
                tell(choice.delta.content)
    if stream.received_finish_reason is None:  # LiteLLM adds one to the last chunk
        raise EmptyAnswer("the answer broke off")
    response = litellm.stream_chunk_builder(chunks, messages=arguments["messages"])
    _correct(litellm, response, chunks[0], arguments["model"])
    return response


def _correct(litellm: ModuleType, response: Any, first: Any, name: str) -> None:
    """Set the provider's name of the model, and leave out a cost that LiteLLM has computed."""
    response.model = first._hidden_params.get("provider_response_model") or response.model
    stated = getattr(response.usage, "cost", None)
    if stated is None:
        return
    try:
        computed = litellm.completion_cost(response, model=name)
    except Exception:  # LiteLLM raises a bare Exception for an unlisted model
        computed = 0.0
    if stated in (0, computed):
        del response.usage.cost
