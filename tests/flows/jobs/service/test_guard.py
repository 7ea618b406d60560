"""A request is refused before anything is done for it."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from flows.jobs.service.guard import COOKIE, READS_PER_WRITE, Guard, Limits, cookie_of

TOKEN = "a-token-of-some-length"
KIB = 1024


async def echo(request: Request) -> PlainTextResponse:
    """Answer with the length of the body."""
    return PlainTextResponse(str(len(await request.body())))


def client(
    *, token: str = "", is_loopback: bool = True, writes: int = 1000, host: str = "127.0.0.1"
) -> httpx.AsyncClient:
    """Return a client of a guarded application."""
    routes = [Route("/{path:path}", echo, methods=["GET", "POST"])]
    limits = Limits(token, is_loopback, writes, body_bytes=64 * KIB)
    guarded = Guard(Starlette(routes=routes), limits)
    return httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url=f"http://{host}:8200")


async def test_a_body_reaches_the_application_up_to_its_limit() -> None:
    """One byte more is refused."""
    async with client() as asking:
        whole = await asking.post("/submit", content=b"x" * 64 * KIB)
        longer = await asking.post("/submit", content=b"x" * (64 * KIB + 1))
    assert (whole.status_code, whole.text) == (200, str(64 * KIB))
    assert longer.status_code == 413
    assert longer.json() == {"error": "the body is longer than 64 KiB: shorten it"}


async def test_a_body_without_a_length_is_limited_too() -> None:
    """Only the bytes that arrive count."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * KIB

    async with client() as asking:
        assert (await asking.post("/submit", content=parts())).status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer another"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
        ({"Cookie": f"{COOKIE}={TOKEN}"}, 401),
        ({"Cookie": f"{COOKIE}={cookie_of(TOKEN)}"}, 200),
        ({"Cookie": f"{COOKIE}={cookie_of('')}"}, 401),
    ],
)
async def test_a_token_is_needed(headers: dict[str, str], status: int) -> None:
    """It is a bearer token or the cookie of the sign-in page, which does not hold it."""
    async with client(token=TOKEN) as asking:
        answer = await asking.get("/jobs", headers=headers)
    assert answer.status_code == status
    assert (status == 401) == ("www-authenticate" in answer.headers)


async def test_a_browser_is_led_to_the_sign_in() -> None:
    """It comes back to the page that it asked for."""
    async with client(token=TOKEN) as asking:
        answer = await asking.get("/ui/jobs", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/ui/jobs")


@pytest.mark.parametrize("path", ["/health", "/sign-in", "/style.css", "/static/pages.js"])
async def test_some_paths_need_no_token(path: str) -> None:
    """The check of health, and the files of the sign-in page."""
    async with client(token=TOKEN) as asking:
        assert (await asking.get(path)).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["]
)
async def test_a_page_of_another_site_is_refused(origin: str) -> None:
    """On loopback, no token would keep it out."""
    async with client() as asking:
        answer = await asking.post("/submit", headers={"Origin": origin}, content=b"{}")
        own = await asking.post("/submit", headers={"Origin": "http://127.0.0.1:8200"})
    assert (answer.status_code, own.status_code) == (403, 200)


async def test_a_name_that_was_rebound_to_loopback_is_refused() -> None:
    """A service on loopback answers to loopback's names only, and another one to any."""
    async with client(host="evil.example") as asking:
        assert (await asking.get("/jobs")).status_code == 403
    async with client() as asking:
        assert (await asking.get("/jobs", headers={"Host": "[::1"})).status_code == 403
        assert (await asking.get("/jobs", headers={"Host": "[::1]:8200"})).status_code == 200
    async with client(host="evil.example", is_loopback=False) as asking:
        assert (await asking.get("/jobs")).status_code == 200


async def test_writes_are_limited_by_their_number() -> None:
    """The answer says when to try again, and reading continues."""
    async with client(writes=2) as asking:
        made = [(await asking.post("/submit")).status_code for _ in range(3)]
        last = await asking.post("/submit")
        read = await asking.get("/jobs")
    assert made == [200, 200, 429]
    assert last.json()["error"].startswith("too many requests: try again in")
    assert 0 < int(last.headers["Retry-After"]) <= 30
    assert read.status_code == 200


async def test_reads_are_limited_too() -> None:
    """A page that asks without end gets no further."""
    async with client(writes=1) as asking:
        asked = [(await asking.get("/jobs")).status_code for _ in range(READS_PER_WRITE + 1)]
    assert asked == [200] * READS_PER_WRITE + [429]


async def test_wrong_tokens_are_limited_as_writes_are() -> None:
    """Nobody tries a thousand tokens."""
    async with client(token=TOKEN, writes=2) as asking:
        tried = [
            (await asking.get("/jobs", headers={"Authorization": f"Bearer {n}"})).status_code
            for n in range(3)
        ]
    assert tried == [401, 401, 429]
