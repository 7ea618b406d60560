"""LiteLLM, configured and loaded on first use."""

import asyncio
import functools
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from agent.models.http import use_in


@functools.cache
def load() -> ModuleType:
    """Return LiteLLM, configured. The first call takes seconds, so there is no import above."""
    # Its price list is in the package. Without this, it is downloaded on import.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Sends OpenAI requests like those of all other providers. OpenAI's SDK matches every message
    # against its types, so a call with 100 messages costs 25 ms more through it.
    os.environ.setdefault("EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER", "true")
    import litellm

    use_in(litellm)
    litellm.suppress_debug_info = True
    litellm.response_cost_calculator = _unpriced  # type: ignore[assignment]  # None is no price
    # It puts its own usage into streamed responses of OpenAI. A chat would show the warning.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    if "LITELLM_LOG" not in os.environ:
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


async def loaded() -> ModuleType:
    """Return LiteLLM, configured. Other tasks go on while the first call loads it."""
    return load() if load.cache_info().currsize else await asyncio.to_thread(load)


def _unpriced(**answer: object) -> None:
    """Leave an answer without a price. `LiteLLMModel` asks for it, if no other one is known.

    LiteLLM would search its list for every answer, which takes a third of the time of a call.
    """


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep LiteLLM from logging the calls of the block, which takes a quarter of their time.

    Nothing reads that log: the journal has every call.
    """
    from litellm._internal_context import is_internal_call

    token = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(token)
