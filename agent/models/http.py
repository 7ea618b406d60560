"""The only HTTP client on the way to a provider: for programs, and for LiteLLM.

It follows no redirect, since another host must not get the key. It sends each request once, since
only the retry policy decides about a second payment. The environment names the proxies.
"""

import asyncio
import functools
import logging
import os
import ssl
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import httpx

from agent.models.answers import NoAnswer, dialect_of, read_answer

_CLIENTS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]" = (
    weakref.WeakKeyDictionary()
)


def client() -> httpx.AsyncClient:
    """Return the client of the running event loop. Each request sets its own time limit."""
    loop = asyncio.get_running_loop()
    if loop not in _CLIENTS:
        _CLIENTS[loop] = httpx.AsyncClient(
            verify=_certificates(),
            follow_redirects=False,
            # The client is never closed, so an idle connection would stay open.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            timeout=None,  # noqa: S113
            event_hooks={"request": [_drop_empty_keys]},
        )
    return _CLIENTS[loop]


NO_KEY = "no-key"
"""A placeholder for a key. LiteLLM requires one, although some servers do not."""


async def _drop_empty_keys(request: httpx.Request) -> None:
    for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key"):
        key = request.headers.get(name, "").removeprefix("Bearer").strip()
        if key in ("", NO_KEY, "fake-api-key"):  # the last one is LiteLLM's
            request.headers.pop(name, None)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes longer than a local call."""
    return httpx.create_ssl_context()


_BODIES: ContextVar[list[Any] | None] = ContextVar("bodies", default=None)


@contextmanager
def recording_bodies() -> Iterator[list[Any]]:
    """Yield a list that receives the body of each response to LiteLLM within the block."""
    bodies: list[Any] = []
    token = _BODIES.set(bodies)
    try:
        yield bodies
    finally:
        _BODIES.reset(token)


def record_body(body: Any) -> None:
    """Record the body of a response, or what a stream adds up to."""
    if (bodies := _BODIES.get()) is not None:
        bodies.append(body)


def _use_in(litellm: ModuleType) -> None:
    """Let LiteLLM send everything through this client."""
    from litellm.caching.llm_caching_handler import LLMClientCache
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, MaskedHTTPStatusError
    from litellm.llms.ollama.common_utils import OllamaModelInfo

    class Transport(AsyncHTTPHandler):
        """LiteLLM's own resends a request itself, and follows redirects with the key."""

        def __init__(self) -> None:
            """Make no client yet: each event loop has its own."""

        @property  # type: ignore[misc]
        def client(self) -> httpx.AsyncClient:
            return client()

        async def post(
            self,
            url: str,
            data: Any = None,
            json: Any = None,
            params: Any = None,
            headers: Any = None,
            timeout: Any = None,  # noqa: ASYNC109 - LiteLLM's own signature
            stream: bool = False,
            logging_obj: Any = None,
            files: Any = None,
            content: Any = None,
        ) -> httpx.Response:
            if content is None and isinstance(data, str | bytes):
                data, content = None, data
            request = client().build_request(
                "POST",
                url,
                data=data,
                content=content,
                json=json,
                params=params,
                headers=headers,
                timeout=timeout,
                files=files,
            )
            response = await client().send(request, stream=stream)
            try:
                response.raise_for_status()
            except httpx.HTTPStatusError as error:
                text = (await response.aread()).decode("utf-8", "replace")
                raise MaskedHTTPStatusError(error, message=text, text=text) from None
            return response if stream else _make_readable(response)

        async def close(self) -> None:
            """Leave the client open for other calls."""

        def __del__(self) -> None:
            """Leave the client open for other calls."""

    transport = Transport()

    class Clients(LLMClientCache):
        """LiteLLM's cache of the clients of providers."""

        def get_cache(self, key: str, **options: Any) -> Any:
            if key.startswith("async_httpx_client"):
                return transport
            return super().get_cache(key, **options)  # type: ignore[no-untyped-call]

    litellm.in_memory_llm_clients_cache = Clients()  # type: ignore[attr-defined]
    litellm.module_level_aclient = transport  # type: ignore[attr-defined]
    # LiteLLM would ask Ollama about a model in each call, whatever the address of the server is.
    OllamaModelInfo.get_runtime_model_info = (  # type: ignore[method-assign]
        lambda *_, **__: None  # type: ignore[assignment]
    )


def _make_readable(response: httpx.Response) -> httpx.Response:
    """Record a response, and return it without the odd parts that LiteLLM would not survive."""
    try:
        body = response.json()
        record_body(body)
        dialect = dialect_of(body)
        if dialect is not None:
            readable = read_answer(dialect, body).body
        elif isinstance(body, dict) and isinstance(body.get("error"), str):
            readable = {"error": {"message": body["error"], "code": 422}}
        else:
            return response
    except (ValueError, RecursionError, NoAnswer):
        return response
    return httpx.Response(
        response.status_code,
        headers={
            name: value
            for name, value in response.headers.items()
            if name not in ("content-encoding", "content-length", "transfer-encoding")
        },
        json=readable,
        request=response.request,
    )


@functools.cache
def load() -> ModuleType:
    """Return LiteLLM, configured. The first call takes seconds, hence the import below."""
    # Its price list is in the package. Without this, it is downloaded on import.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Sends requests to OpenAI as to all other providers. OpenAI's SDK matches every message against
    # its types, so a call with 100 messages costs 25 ms more through it.
    os.environ.setdefault("EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER", "true")
    import litellm

    _use_in(litellm)
    litellm.suppress_debug_info = True
    # `LiteLLMModel` prices an answer if nothing else does. LiteLLM would search its list for every
    # answer, which takes a third of the time of a call.
    litellm.response_cost_calculator = lambda **_: None  # type: ignore[assignment]
    # It puts its own usage into streamed responses of OpenAI. A chat would show the warning.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    # It starts a request in a thread. One that is stopped there would print a warning.
    warnings.filterwarnings("ignore", "coroutine 'BaseLLMHTTPHandler", RuntimeWarning)
    if "LITELLM_LOG" not in os.environ:
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


async def load_in_thread() -> ModuleType:
    """Return LiteLLM, configured. Other tasks continue while the first call loads it."""
    return load() if load.cache_info().currsize else await asyncio.to_thread(load)


@contextmanager
def suspend_logging() -> Iterator[None]:
    """Keep LiteLLM from logging the calls of the block, which takes a quarter of their time."""
    from litellm._internal_context import is_internal_call

    token = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(token)
