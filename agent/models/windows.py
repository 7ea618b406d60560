"""The context window of a model, and the refused requests that were longer."""

import re
from typing import Any

import httpx

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.models import http
from agent.models.ceilings import Ceilings
from agent.models.dialects import address
from agent.models.spec import LiteLLMSpec

_ASK_LIMIT_S = 5.0
_NEAR = 0.6
"""A refused request whose estimated input is at least this part of the window did not fit."""

_TOO_LONG = re.compile(
    r"context[ _](length|size|window)|maximum model length|prompt is too long"
    r"|input token count .*exceeds|inputs` tokens \+",
    re.IGNORECASE,
)
"""Words of servers for a request that is too long, for a window that is unknown: OpenAI, llama.cpp,
LM Studio and SGLang; vLLM; Anthropic; Google; Text Generation Inference."""

_ABOUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens\W.{0,60}too large", re.IGNORECASE)
"""A server's words for a limit on the output that its window does not hold."""

_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")
"""Names that servers give to their window: vLLM and SGLang the first, llama.cpp the last."""

_ASKED: dict[tuple[str, str], int | None] = {}


async def window_of(spec: LiteLLMSpec, ceilings: Ceilings) -> int | None:
    """Return the context window, tokens: declared, listed or asked from the server, or None.

    A server with an `api_base` is asked once in each process.
    """
    if (known := ceilings.context_tokens) is not None or spec.api_base is None:
        return known
    place = (spec.api_base, spec.name)
    if place not in _ASKED:
        try:
            _ASKED[place] = await _ask(spec)
        except httpx.ConnectError:
            return None  # a server that is down now is asked again
    return _ASKED[place]


async def _ask(spec: LiteLLMSpec) -> int | None:
    url, headers = address("chat", spec.api_base)
    models = url.removesuffix("/chat/completions") + "/models"
    try:
        response = await http.client().get(models, headers=headers, timeout=_ASK_LIMIT_S)
        return _window_in(response.json(), spec.name.partition("/")[2])
    except httpx.ConnectError:
        raise
    except (httpx.HTTPError, ValueError, RecursionError):
        return None


def _window_in(listing: Any, name: str) -> int | None:
    """Return the window of a model in a server's list, or None if it does not say."""
    entries = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    models = [each for each in entries if isinstance(each, dict)]
    named = [each for each in models if each.get("id") == name] or models
    if len(named) != 1:
        return None
    [entry] = named
    meta = entry.get("meta")
    places = [entry, meta if isinstance(meta, dict) else {}]
    found = (place.get(field) for place in places for field in _FIELDS)
    return next((each for each in found if type(each) is int and 0 < each < 10**9), None)


def judged(
    error: ContextWindowExceeded | RequestRefused, size: int, window: int | None
) -> ContextWindowExceeded | RequestRefused:
    """Return the error of a request that the server refused, by its size before the words.

    `size` is the estimated input in tokens.
    """
    words = str(error)
    if window is not None and size >= _NEAR * window:
        return ContextWindowExceeded(words)
    if _ABOUT_LIMIT.search(words):
        return RequestRefused(f"{words} (declare the model's context_tokens or max_tokens)")
    return ContextWindowExceeded(words) if _TOO_LONG.search(words) else error
