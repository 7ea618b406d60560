"""Checks of clients, rates and sizes, before anything else handles a request.

A request needs the token, as a bearer or in the cookie that the sign-in page sets. On loopback a
service may have no token. A page of another site cannot use either: its requests carry an origin
that is not the service's, and an address that was rebound to loopback carries a foreign host.
"""

import hashlib
import hmac
import ipaddress
import math
import time
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "durabench"
OPEN_PATHS = ("/health", "/sign-in", "/style.css", "/static/", "/webhook")
"""Paths that do not need a token. A webhook has a signature."""

READS_PER_WRITE = 10
"""Reading requests that an address can make for each request that changes something."""

RETRY_AFTER_S = 5
"""Time after which a client should repeat a request that cannot be answered now."""

_DRAINED_BYTES = 32 * 1024 * 1024
_DRAIN_S = 10.0
_MOST_CLIENTS = 10_000


class Problem(Exception):
    """A request that cannot be answered. The message is one line."""

    def __init__(self, status: int, message: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(" ".join(message.split()))
        self.status, self.retry_after_s = status, retry_after_s


def tell_when(status: int, retry_after_s: int = RETRY_AFTER_S) -> dict[str, str]:
    """Return the header that says when a request may succeed, for a status that is temporary."""
    return {"Retry-After": str(retry_after_s)} if status in (429, 503) else {}


def not_found(what: str) -> Problem:
    """Return the answer to a request for something that does not exist."""
    return Problem(404, f"there is no {what}")


@dataclass(frozen=True)
class Limits:
    """Limits on requests."""

    token: str = field(repr=False)
    """Empty: none is needed, which is possible on loopback only."""
    is_loopback: bool
    writes_per_minute: int
    body_bytes: int = 1024 * 1024


def cookie_of(token: str) -> str:
    """Return the value of the cookie of a browser that has the token. It does not contain it."""
    return hmac.new(token.encode(), b"durabench pages", hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    """Return True if an address, or the host of one, is this machine itself."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Rate:
    """Requests of each address, refilled evenly over a minute."""

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._left: dict[str, tuple[float, float]] = {}
        """Requests left, and when that was so."""

    def wait_s(self, client: str) -> float:
        """Count a request. Return 0, or the seconds after which the next one is allowed."""
        now = time.monotonic()
        left, at = self._left.get(client, (self._per_minute, now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        if left < 1:
            return (1 - left) * 60 / self._per_minute
        if len(self._left) >= _MOST_CLIENTS:
            self._left.clear()
        self._left[client] = (left - 1, now)
        return 0.0


class Guard:
    """Middleware that refuses requests, and reads bodies up to their limit."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._writes = Rate(limits.writes_per_minute)
        self._reads = Rate(limits.writes_per_minute * READS_PER_WRITE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
            body = await self._body(scope, receive) if scope["type"] == "http" else receive
        except Problem as problem:
            await self._refuse(problem, scope, receive, send)
            return
        await self._app(scope, body, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        try:
            hostname = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # it is malformed
            hostname = ""
        if self._limits.is_loopback and not is_loopback(hostname):
            raise Problem(403, f"this service answers on loopback only, and not as {host!r}")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Problem(403, f"pages of {origin} may not use this service")
        is_write = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        self._count(scope, self._writes if is_write else self._reads)
        if not self._has_token(scope["path"], headers):
            self._count(scope, self._writes)
            raise Problem(401, "a token is needed: Authorization: Bearer TOKEN")

    def _count(self, scope: Scope, rate: Rate) -> None:
        client = scope.get("client")
        if seconds := rate.wait_s(client[0] if client else ""):
            seconds = math.ceil(seconds)
            raise Problem(429, f"too many requests: try again in {seconds} s", seconds)

    def _has_token(self, path: str, headers: Headers) -> bool:
        token = self._limits.token
        if not token or path.startswith(OPEN_PATHS):
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same(bearer.strip(), token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and _is_same(cookie.value, cookie_of(token))

    async def _body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` of the whole body."""
        if scope["method"] in ("GET", "HEAD"):
            return receive
        parts: list[bytes] = []
        size, more = 0, True
        with anyio.move_on_after(_DRAIN_S) as limit:
            while more and size <= _DRAINED_BYTES:
                message = await receive()
                if message["type"] != "http.request":
                    return receive
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
                if size <= self._limits.body_bytes:
                    parts.append(message.get("body", b""))
        if size > self._limits.body_bytes:
            most = self._limits.body_bytes // 1024
            raise Problem(413, f"the body is longer than {most:,} KiB: shorten it")
        if limit.cancelled_caught:
            raise Problem(408, f"the body did not arrive within {_DRAIN_S:.0f} s")
        body: bytes | None = b"".join(parts)

        async def receive_again() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message = {"type": "http.request", "body": body, "more_body": False}
            body = None
            return message

        return receive_again

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Response = JSONResponse({"error": str(problem)}, problem.status)
        if problem.status == 401:
            answer.headers["WWW-Authenticate"] = "Bearer"
            if scope["type"] == "http" and wants_page(Headers(scope=scope)):
                answer = RedirectResponse(f"/sign-in?next={quote(scope['path'])}", 303)
        answer.headers.update(tell_when(problem.status, problem.retry_after_s))
        await answer(scope, receive, send)


def wants_page(headers: Headers) -> bool:
    """Return True if a browser asks for a page."""
    return "text/html" in headers.get("accept", "")


def _is_same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(), secret.encode())
