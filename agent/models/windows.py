"""The context window of a model: its sources, and the refused requests that it explains."""

import re
from typing import Any

import httpx

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.models import http
from agent.models.ceilings import Ceilings
from agent.models.dialects import address_of_list
from agent.models.retry import TOO_LONG
from agent.models.spec import LiteLLMSpec

_NEAR = 0.6
"""A refused request whose estimated input is at least this part of the window did not fit."""

_ABOUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens\W.{0,60}too large", re.IGNORECASE)
"""A server's message about a limit on the output that its window does not hold."""

_OUTPUT = re.compile(r"(\d{1,9}) (?:(?:tokens )?(?:in|for) the completion|`max_new_tokens`)")
"""The part of a request that a server counts as its output."""

_FIELDS = (
    *("max_model_len", "loaded_context_length", "context_length", "max_context_length"),
    *("context_window", "n_ctx"),
)
"""Names that servers give to their window: vLLM and SGLang the first, LM Studio the second,
llama.cpp the last."""

_OF_LM_STUDIO = "/api/v0/models"
"""Path of LM Studio's own list. Its list in OpenAI's form states no window."""

_TIMEOUT_S = 5.0

_WINDOWS: dict[tuple[str, str], int | None] = {}


async def find_window(spec: LiteLLMSpec, ceilings: Ceilings) -> int | None:
    """Return the context window, tokens: declared, listed or requested from the server, or None.

    A server with an `api_base` gets one request in each process, or two if the first answer does
    not state the window.
    """
    if ceilings.context_tokens is not None or spec.api_base is None:
        return ceilings.context_tokens
    server = (spec.api_base, spec.name)
    if server not in _WINDOWS:
        try:
            _WINDOWS[server] = await _ask_server(spec)
        except httpx.ConnectError:
            return None  # the server is down now, so the next call tries again
    return _WINDOWS[server]


async def _ask_server(spec: LiteLLMSpec) -> int | None:
    """Return the window that a server lists, or None."""
    if (place := address_of_list(spec)) is None:
        return None
    address, headers = place
    base = address.removesuffix("/models").removesuffix("/v1")
    for url in (address, f"{base}{_OF_LM_STUDIO}"):
        try:
            response = await http.client().get(url, headers=headers, timeout=_TIMEOUT_S)
            window = _window_in(response.json(), spec.name.partition("/")[2])
        except httpx.ConnectError:
            raise
        except (httpx.HTTPError, ValueError, RecursionError):
            continue
        if window is not None:
            return window
    return None


def _window_in(listing: Any, name: str) -> int | None:
    """Return the window of a model in a server's list, or None if the list does not state it."""
    entries = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    models = [entry for entry in entries if isinstance(entry, dict)]
    matches = [entry for entry in models if entry.get("id") == name] or models
    if len(matches) != 1:
        return None
    [entry] = matches
    meta = entry.get("meta")
    places = [entry, meta if isinstance(meta, dict) else {}]
    windows = (place.get(field) for place in places for field in _FIELDS)
    return next((size for size in windows if type(size) is int and 0 < size < 10**9), None)


def reclassify(
    error: ContextWindowExceeded | RequestRefused, size: int, window: int | None
) -> ContextWindowExceeded | RequestRefused:
    """Return the error of a request that the server refused: by its size, else by the message.

    `size` is the estimated input in tokens.
    """
    message = str(error)
    if window is not None and size >= _NEAR * window:
        return ContextWindowExceeded(message)
    output = _OUTPUT.search(message)
    if _ABOUT_LIMIT.search(message) or (output and int(output[1]) > size):
        return RequestRefused(f"{message} (declare the model's context_tokens or max_tokens)")
    return ContextWindowExceeded(message) if TOO_LONG.search(message) else error
