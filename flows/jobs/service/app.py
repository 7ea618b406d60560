"""The application: its routes, its answers to errors, and what it opens and closes."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prefect.client.orchestration import get_client
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint

from agent.errors import InfrastructureError, one_line
from flows.display.errors import Mismatch, UsageError
from flows.jobs.service import (
    experiment_pages,
    live,
    messages,
    pages,
    pipeline_pages,
    pipelines,
    rendering,
    routes,
)
from flows.jobs.service.board import Board
from flows.jobs.service.feed import Feed
from flows.jobs.service.guard import Guard, Limits, wants_page
from flows.jobs.service.problems import Problem
from flows.jobs.service.services import Service
from flows.storage.lake import Lake
from reports.errors import ReportError

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


def create(lake: Lake, limits: Limits) -> FastAPI:
    """Return the application for a lake and the configured Prefect server."""

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with get_client() as client:
            board = Board(lake, client)
            await board.warm()
            feed = Feed(lake, board)
            app.state.service = Service(lake, client, board, feed, limits)
            try:
                yield
            finally:
                await feed.close()

    # The pages of the documentation would load their scripts from another host.
    app = FastAPI(title="Durabench", lifespan=opened, docs_url=None, redoc_url=None)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    for each in (routes, messages, pipelines, live, pages, pipeline_pages, experiment_pages):
        app.include_router(each.router)
    for error in (Problem, RequestValidationError, HTTPException, Exception, *_KNOWN):
        app.add_exception_handler(error, _answer)
    app.middleware("http")(_with_headers)
    app.add_middleware(Guard, limits=limits)
    return app


_KNOWN: tuple[type[Exception], ...] = (InfrastructureError, UsageError, ReportError)


async def _with_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    answer = await call_next(request)
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


async def _answer(connection: Any, error: Exception) -> Any:
    """Answer an error with its status and one line, as JSON or as a page.

    The connection is a request, or a WebSocket that is not accepted yet.
    """
    status, message = _of(error)
    if status >= 500:
        _log.error("%s: %s", connection.url.path, message, exc_info=status == 500)
    if isinstance(connection, WebSocket):
        await connection.send_denial_response(JSONResponse({"error": message}, status))
        return None
    if wants_page(connection.headers):
        return rendering.problem(status, message)
    return JSONResponse({"error": message}, status)


def _of(error: Exception) -> tuple[int, str]:
    if isinstance(error, Problem):
        return error.status, str(error)
    if isinstance(error, RequestValidationError):
        return 422, "; ".join(_line(each["loc"], each["msg"]) for each in error.errors())
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, UsageError) and not isinstance(error, Mismatch):
        return 422, one_line(error)
    if isinstance(error, _KNOWN):
        return 503, one_line(error)
    return 500, "the service failed; its log says why"


def _line(place: tuple[str | int, ...], message: str) -> str:
    where = ".".join(str(part) for part in place[1:])
    return f"{where}: {message}" if where else message
