"""The routes of the three dialects."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.gateway import refusals, streams
from agent.gateway.switch import Answered, Call, Switch
from agent.models.chat import CHARS_PER_TOKEN
from agent.models.protocol import Dialect
from agent.timings import timings

_ROUTES: dict[str, Dialect] = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}


def app(switch: Switch, model: str, token: str) -> Starlette:
    """Return the app of one attempt, whose arm is declared with a model.

    Every request has to carry the token as its key.
    """

    def asked(dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await _answer(switch, dialect, request, token)

        return endpoint

    async def models(request: Request) -> Response:
        listed = {"id": model, "object": "model", "type": "model", "display_name": model}
        entry = {**listed, "created": 0, "created_at": "2025-01-01T00:00:00Z", "owned_by": "arm"}
        return JSONResponse({"object": "list", "data": [entry], "has_more": False})

    routes = [Route(path, asked(dialect), methods=["POST"]) for path, dialect in _ROUTES.items()]
    count = Route("/v1/messages/count_tokens", _count, methods=["POST"])
    return Starlette(routes=[*routes, count, Route("/v1/models", models)])


async def _count(request: Request) -> Response:
    """Estimate tokens without asking the provider, as clients do before they send."""
    size = len(await request.body())
    return JSONResponse({"input_tokens": size // CHARS_PER_TOKEN})


async def _answer(switch: Switch, dialect: Dialect, request: Request, token: str) -> Response:
    if not secrets.compare_digest(_key(request).encode(), token.encode()):
        return _error(dialect, "this gateway belongs to another attempt", 401)
    try:
        body = json.loads(await request.body())
        if not isinstance(body, dict):
            raise ValueError("not an object")
    except ClientDisconnect:
        return Response(status_code=499)
    except ValueError as error:
        switch.seen.invalid_requests += 1
        return _error(dialect, f"the request is not JSON: {error}", 400)
    call, is_stream = switch.ask(dialect, body, request.headers), bool(body.get("stream"))
    try:
        first = await _first(call, request, is_stream=is_stream)
    except ClientDisconnect:
        call.undelivered()
        return Response(status_code=499)
    if first is not None and first.is_error:
        return JSONResponse(first.body, 400, refusals.NOT_RETRIED)
    if first is not None and not is_stream:
        return JSONResponse(first.body)
    headers = {"cache-control": "no-cache"}
    return StreamingResponse(_events(call, dialect), 200, headers, "text/event-stream")


async def _first(call: Call, request: Request, *, is_stream: bool) -> Answered | None:
    """Return the answer, or None if a stream has to begin with a sign of life.

    Raises:
        ClientDisconnect: the program has hung up.
    """
    hung_up = asyncio.create_task(_hung_up(request))
    try:
        patience_s = timings().gateway_ping_s if is_stream else None
        either: set[asyncio.Task[Any]] = {call.task, hung_up}
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if hung_up.done():
            raise ClientDisconnect
        return call.task.result() if call.task.done() else None
    finally:
        hung_up.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(call: Call, dialect: Dialect) -> AsyncIterator[bytes]:
    is_whole = False
    try:
        while (answered := await call.within(timings().gateway_ping_s)) is None:
            yield streams.PINGS[dialect]
        if answered.is_error:
            yield streams.error_event(dialect, answered.body)
        else:
            for event in streams.events(dialect, answered.body):
                yield event
                await asyncio.sleep(0)  # lets the server notice a client that hung up
        is_whole = True
    finally:
        if not is_whole:
            call.undelivered()


def _key(request: Request) -> str:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return request.headers.get("x-api-key") or bearer


def _error(dialect: Dialect, message: str, status: int) -> Response:
    content: dict[str, Any] = refusals.error_body(dialect, message)
    return JSONResponse(content, status, refusals.NOT_RETRIED)
