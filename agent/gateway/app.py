"""The routes of the four dialects, served by one small server per attempt."""

import asyncio
import json
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.errors import WorkspaceError
from agent.gateway import bodies
from agent.gateway.bodies import InvalidBody, Room
from agent.gateway.switch import Answered, GatewayCall, Switch
from agent.models.chat import CHARS_PER_TOKEN
from agent.models.requests import Dialect

PING_S = 5.0
"""Interval between signs of life to a program that waits for a model's answer."""

Endpoint = Callable[[Request], Awaitable[Response]]

_ROUTES: dict[str, Dialect] = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}
_OF_GOOGLE = [f"/{version}/models/{{model:path}}" for version in ("v1beta", "v1")]
"""Paths of Google's models, which the names of methods follow."""


_LONGEST_PATH = 100


def _dialect_at(path: str) -> Dialect:
    """Return the dialect in which a program expects errors at a path, known or not."""
    if path.partition("/models/")[2].partition(":")[2]:
        return "gemini"
    ends = ((route.removeprefix("/v1"), dialect) for route, dialect in _ROUTES.items())
    return next((dialect for end, dialect in ends if end in path), "chat")


def app(switch: Switch, model: str, token: str) -> Starlette:
    """Return the app of one attempt, whose arm is declared with a model.

    Every request has to carry the token as its key.
    """
    room = Room()

    def answer(dialect: Dialect) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            held = await room.read(request)
            call = switch.ask(dialect, held.body, request.headers)
            call.task.add_done_callback(lambda _: room.give(held.size))
            return await _answer(call, dialect, request, is_stream=bool(held.body.get("stream")))

        return endpoint

    async def generate(request: Request) -> Response:
        """Answer a request of Google's dialect, which has its model and method in the path."""
        held = await room.read(request)
        body = {**held.body, "model": request.path_params["model"]}
        call = switch.ask("gemini", body, request.headers)
        call.task.add_done_callback(lambda _: room.give(held.size))
        is_stream = request.url.path.endswith(":streamGenerateContent")
        is_list = is_stream and request.query_params.get("alt") != "sse"
        response = await _answer(call, "gemini", request, is_stream=is_stream and not is_list)
        if is_list and response.status_code == 200:
            return Response(b"[" + bytes(response.body) + b"]", media_type="application/json")
        return response

    async def count(request: Request) -> Response:
        """Estimate tokens without the provider, as clients do before they send."""
        held = await room.read(request)
        room.give(held.size)
        name = "totalTokens" if request.url.path.endswith(":countTokens") else "input_tokens"
        return JSONResponse({name: len(json.dumps(held.body)) // CHARS_PER_TOKEN})

    async def models(request: Request) -> Response:
        entry = {
            "id": model,
            "object": "model",
            "type": "model",
            "display_name": model,
            "created": 0,
            "created_at": "2025-01-01T00:00:00Z",
            "owned_by": "arm",
        }
        return JSONResponse({"object": "list", "data": [entry], "has_more": False})

    async def refuse(request: Request, error: Exception) -> Response:
        if not isinstance(error, InvalidBody):
            return Response(status_code=499)  # the program has hung up
        switch.seen.invalid_requests += 1
        switch.seen.refuse(str(error))
        response = _error(_dialect_at(request.url.path), str(error), error.status)
        response.headers["connection"] = "close"  # the rest of the body is not read
        return response

    async def miss(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        message = f"this gateway has no route {request.method} {path[:_LONGEST_PATH]}"
        if f"/v1{path}" in _ROUTES:
            message += ": add /v1 to the base URL"
        switch.seen.miss(f"{request.method} {path}", message)
        return _error(_dialect_at(path), message, error.status_code)

    return Starlette(
        routes=[
            *(Route(path, answer(dialect), methods=["POST"]) for path, dialect in _ROUTES.items()),
            Route("/v1/messages/count_tokens", count, methods=["POST"]),
            *(Route(f"{path}:countTokens", count, methods=["POST"]) for path in _OF_GOOGLE),
            *(
                Route(f"{path}:{method}", generate, methods=["POST"])
                for path in _OF_GOOGLE
                for method in ("generateContent", "streamGenerateContent")
            ),
            Route("/v1/models", models),
        ],
        middleware=[Middleware(_Guard, token=token, switch=switch)],
        exception_handlers={InvalidBody: refuse, ClientDisconnect: refuse, 404: miss, 405: miss},
    )


class _Guard:
    """Refuses every request without the key."""

    def __init__(self, inner: ASGIApp, token: str, switch: Switch) -> None:
        self._inner = inner
        self._token = token.encode()
        self._switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            bearer = headers.get("authorization", "").removeprefix("Bearer ")
            in_query = Request(scope).query_params.get("key", "")
            names = ("x-api-key", "x-goog-api-key")
            key = next((headers[name] for name in names if headers.get(name)), bearer or in_query)
            if not secrets.compare_digest(key.encode(), self._token):
                message = "the request has not the key of this gateway, `$DURABENCH_KEY`"
                self._switch.seen.miss(f"{scope['method']} {scope['path']} without key", message)
                await _error(_dialect_at(scope["path"]), message, 401)(scope, receive, send)
                return
        await self._inner(scope, receive, send)


async def _answer(
    call: GatewayCall, dialect: Dialect, request: Request, *, is_stream: bool
) -> Response:
    try:
        first = await _first(call, request, is_stream=is_stream)
    except ClientDisconnect:
        call.mark_undelivered()
        raise
    if first is not None and first.is_error:
        return JSONResponse(first.body, 400, bodies.NOT_RETRIED)
    if first is not None and not is_stream:
        return JSONResponse(first.body)
    headers = {"cache-control": "no-cache"}
    return StreamingResponse(_events(call, dialect), 200, headers, "text/event-stream")


async def _first(call: GatewayCall, request: Request, *, is_stream: bool) -> Answered | None:
    """Return the answer, or None if a stream must start with a sign of life."""

    async def wait_for_hang_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    hung_up = asyncio.create_task(wait_for_hang_up())
    try:
        patience_s = PING_S if is_stream else None
        either: set[asyncio.Task[Any]] = {call.task, hung_up}
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if hung_up.done():
            raise ClientDisconnect
        return call.task.result() if call.task.done() else None
    finally:
        hung_up.cancel()


async def _events(call: GatewayCall, dialect: Dialect) -> AsyncIterator[bytes]:
    is_whole = False
    try:
        while (answer := await call.within(PING_S)) is None:
            yield bodies.PINGS[dialect]
        if answer.is_error:
            yield bodies.error_event(dialect, answer.body)
        else:
            for event in bodies.events(dialect, answer.body):
                yield event
                await asyncio.sleep(0)  # lets the server notice a client that hung up
        is_whole = True
    finally:
        if not is_whole:
            call.mark_undelivered()


def _error(dialect: Dialect, message: str, status: int) -> Response:
    return JSONResponse(bodies.error_body(dialect, message), status, bodies.NOT_RETRIED)


SOCKET = "gateway.sock"
_BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """The address of the gateway, for a program."""

    socket: Path | None
    port: int


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Yield a folder for a socket. Its users also need the token of the gateway."""
    # The path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="durabench-gw-"))
    folder.chmod(0o711)  # programs in a container can run as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_token() -> str:
    """Return a new token, which every user of a gateway needs."""
    return secrets.token_urlsafe(24)


@asynccontextmanager
async def serve(app: Starlette, folder: Path | None) -> AsyncIterator[Address]:
    """Serve an app on a socket in a folder, or on loopback without one, within the block.

    Raises:
        WorkspaceError: the socket cannot be created.
    """
    listener = _listener(folder)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=600,  # a client in a long command keeps its connection
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        port = 0 if folder else int(listener.getsockname()[1])
        yield Address(folder / SOCKET if folder else None, port)
    finally:
        server.should_exit = True
        await serving
        listener.close()


def _listener(folder: Path | None) -> socket.socket:
    if folder is None:
        return socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise WorkspaceError(f"no socket {path}: {error}; set a shorter TMPDIR") from error
    path.chmod(0o666)
    listener.listen(_BACKLOG)
    return listener
