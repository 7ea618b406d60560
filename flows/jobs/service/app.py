"""The application: its address and token, its routes, and its answers to errors."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint

from agent.errors import InfrastructureError, one_line
from eval.errors import DatasetError
from flows.display.errors import Mismatch, UsageError
from flows.display.terminal import say
from flows.jobs.service import feed, pages, routes, triggers, views
from flows.jobs.service.board import Board
from flows.jobs.service.feed import Feed, Service
from flows.jobs.service.guard import Guard, Limits, Problem, is_loopback, tell_when, wants_page
from flows.jobs.service.orders import Fields
from flows.server.api import is_open
from flows.server.settings import open_api
from flows.server.setup import reach_server
from flows.storage.lake import Lake
from reports.errors import ReportError

VARIABLE = "DURABENCH_SERVICE_TOKEN"
_SHORTEST_TOKEN = 16
_CLOSING_S = 5

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "style-src 'self' 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer. Pages load nothing from elsewhere, and no other site frames them."""

_log = logging.getLogger("durabench.service")


async def serve(
    host: str,
    port: int,
    lake: str | None,
    *,
    writes_per_minute: int,
    defaults: Fields = MappingProxyType({}),
    watch: Sequence[str] = (),
    repairs: int = 0,
) -> None:
    """Serve until a signal ends this process. `defaults` are fields that clients leave out.

    Events of the repositories in `watch` are read at intervals. CI is repaired so many times.

    Raises:
        UsageError: the address is open to others and there is no token or Prefect's API wants no
            password, or no Prefect server is configured.
        InfrastructureError: the Prefect server does not answer.
    """
    limits = Limits(_token(host), is_loopback(host), writes_per_minute)
    await reach_server("serve")
    url = str(PREFECT_API_URL.value())
    if await asyncio.to_thread(is_open, url):
        if not is_loopback(host):
            raise UsageError(open_api(url))
        say(f"note: {open_api(url)}")
    config = uvicorn.Config(
        create(Lake.existing(lake), limits, defaults, watch, repairs),
        host=host,
        port=port,
        log_level="warning",
        log_config=None,  # its records are printed as all others
        ws="websockets-sansio",
        ws_max_size=64 * 1024,
        proxy_headers=False,  # a client could name any address, and evade its rate
        server_header=False,
        timeout_graceful_shutdown=_CLOSING_S,
    )
    await uvicorn.Server(config).serve()


def _token(host: str) -> str:
    """Return the token that clients need, or an empty text."""
    token = os.environ.get(VARIABLE, "").strip()
    if not token and not is_loopback(host):
        raise UsageError(
            f"others can reach {host}, and {VARIABLE} is not set: set it to a long random text, "
            "which clients send as a bearer token, or serve on 127.0.0.1"
        )
    if token and len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"{VARIABLE} is shorter than {_SHORTEST_TOKEN} characters: make it longer")
    return token


def create(
    lake: Lake, limits: Limits, defaults: Fields, watch: Sequence[str], repairs: int
) -> FastAPI:
    """Return the application for a lake and the configured Prefect server."""

    @asynccontextmanager
    async def open_service(app: FastAPI) -> AsyncIterator[None]:
        async with get_client() as client:
            board = Board(lake, client)
            steps = Feed(lake, board)
            service = Service(lake, client, board, steps, limits, defaults, repairs)
            app.state.service = service
            try:
                async with triggers.watching(service, watch):
                    yield
            finally:
                await steps.close()

    # The pages of the documentation would load their scripts from another host.
    app = FastAPI(title="Durabench", lifespan=open_service, docs_url=None, redoc_url=None)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    for router in (routes.router, triggers.router, feed.router, pages.router):
        app.include_router(router)
    for error in (Problem, RequestValidationError, HTTPException, Exception, *_KNOWN):
        app.add_exception_handler(error, _answer)

    @app.middleware("http")
    async def add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = await call_next(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    app.add_middleware(Guard, limits=limits)
    return app


_KNOWN: tuple[type[Exception], ...] = (InfrastructureError, UsageError, DatasetError, ReportError)


async def _answer(connection: Any, error: Exception) -> Any:
    """Answer an error with its status and one line, as JSON or as a page.

    The connection is a request, or a WebSocket that is not accepted yet.
    """
    status, message = _describe(error)
    headers = tell_when(status)
    if status >= 500:
        _log.error("%s: %s", connection.url.path, message, exc_info=status == 500)
    if isinstance(connection, WebSocket):
        await connection.send_denial_response(JSONResponse({"error": message}, status, headers))
        return None
    if wants_page(connection.headers):
        return views.page("problem", status=status, code=status, message=message)
    return JSONResponse({"error": message}, status, headers)


def _describe(error: Exception) -> tuple[int, str]:
    if isinstance(error, Problem):
        return error.status, str(error)
    if isinstance(error, RequestValidationError):
        lines = []
        for problem in error.errors():
            place = ".".join(str(part) for part in problem["loc"][1:])
            lines.append(f"{place}: {problem['msg']}" if place else problem["msg"])
        return 422, "; ".join(lines)
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, UsageError | DatasetError) and not isinstance(error, Mismatch):
        return 422, one_line(error)
    if isinstance(error, _KNOWN):
        return 503, one_line(error)
    return 500, "the service failed; see its log"
