"""The only HTTP client on the way to a provider: for programs, and for LiteLLM.

It follows no redirect, since the key of one host is nothing for another. It sends each request
once, since only the retry policy knows what may be paid twice. Proxies are those that the
environment names.
"""

import asyncio
import functools
import ssl
import weakref
from types import ModuleType
from typing import Any

import httpx

_CLIENTS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]" = (
    weakref.WeakKeyDictionary()
)


def client() -> httpx.AsyncClient:
    """Return the client of the running event loop. Each request sets its own time limit."""
    loop = asyncio.get_running_loop()
    if (known := _CLIENTS.get(loop)) is None:
        known = _CLIENTS[loop] = httpx.AsyncClient(
            verify=_certificates(),
            follow_redirects=False,
            # A connection of an ended attempt would be left open: nobody closes the client.
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=None,  # noqa: S113
        )
    return known


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes longer than a local call."""
    return httpx.create_ssl_context()


def transport(litellm: ModuleType) -> Any:
    """Return the client in the form in which LiteLLM takes it, for one call.

    Its `body` is the last answer as the provider sent it: None before there is one.
    """
    return _kind_of_transport(litellm)()


@functools.cache
def _kind_of_transport(litellm: ModuleType) -> type:
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, MaskedHTTPStatusError

    from agent.models.answers import NoAnswer, dialect_of, read_answer

    class Transport(AsyncHTTPHandler):
        """LiteLLM's own sends a request again by itself, and follows redirects with the key."""

        body: Any = None

        def create_client(self, *_: Any, **__: Any) -> httpx.AsyncClient:
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
            body = {"content": data} if isinstance(data, str | bytes) else {"data": data}
            request = client().build_request(
                "POST",
                url,
                **({"content": content} if content is not None else body),
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
            return response if stream else self._read(response)

        def _read(self, response: httpx.Response) -> httpx.Response:
            """Return a response whose odd parts LiteLLM would not survive are left out."""
            try:
                self.body = response.json()
                dialect = dialect_of(self.body)
                if dialect is None:
                    return response
                answer = read_answer(dialect, self.body)
            except (ValueError, RecursionError, NoAnswer):
                return response
            headers = {
                name: value
                for name, value in response.headers.items()
                if name not in ("content-encoding", "content-length", "transfer-encoding")
            }
            return httpx.Response(
                response.status_code, headers=headers, json=answer.body, request=response.request
            )

        async def close(self) -> None:
            """Leave the client open for other calls."""

        def __del__(self) -> None:
            """Leave the client open for other calls."""

    return Transport
