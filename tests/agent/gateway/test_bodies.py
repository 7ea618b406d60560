"""Bodies of requests are bounded before they are read, and every route wants the key."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent.gateway.bodies import LARGEST, MOST_PARTS
from tests.agent.gateway.conftest import opened_gateway

CHAT = "/v1/chat/completions"
GEMINI = "/v1beta/models/m:generateContent"
HELLO = {"messages": [{"role": "user", "content": "Hello."}]}


ROUTES = [
    ("POST", CHAT),
    ("POST", "/v1/messages"),
    ("POST", "/v1/responses"),
    ("POST", GEMINI),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/"),
    ("DELETE", "/v1/files/f"),
]


@pytest.mark.parametrize("key", ["", "Bearer wrong", "Bearer ü"])
async def test_every_route_requires_the_key(tmp_path: Path, key: str) -> None:
    """Another attempt learns nothing, not even which routes exist."""
    async with opened_gateway(tmp_path) as gateway:
        headers = {"authorization": key.encode()}
        for method, path in ROUTES:
            response = await gateway.client.request(method, path, json=HELLO, headers=headers)
            assert response.status_code == 401
        assert (await gateway.client.post(CHAT, json=HELLO)).status_code == 200


INVALID: list[tuple[bytes, dict[str, str], int]] = [
    (b"x", {}, 400),
    (b"[]", {}, 400),
    (b'{"a": NaN}', {}, 400),
    (b'{"a": ' + b"1" * 5_000 + b"}", {}, 400),
    (b'{"a": "\xff"}', {}, 400),
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, 400),
    (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", {}, 400),
    (b'{"a": [' + b"[]," * MOST_PARTS + b"[]]}", {}, 413),
    (b"{}", {"content-encoding": "gzip"}, 415),
    (b"{}", {"content-encoding": "identity"}, 400),
]


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", GEMINI])
async def test_an_invalid_body_is_refused_in_one_line(tmp_path: Path, path: str) -> None:
    """The program gets a status that no client repeats. The gateway answers the next request."""
    async with opened_gateway(tmp_path) as gateway:
        for body, headers, status in INVALID:
            response = await gateway.client.post(path, content=body, headers=headers)
            assert response.status_code == status, body[:20]
            assert "\n" not in response.json()["error"]["message"]
            assert response.headers["x-should-retry"] == "false"
        assert (await gateway.client.post(CHAT, json=HELLO)).status_code == 200


async def test_a_declared_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """The answer comes at once, before a byte of the body was sent."""
    async with opened_gateway(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {gateway.key}\r\n"
        writer.write(f"{head}Content-Length: {LARGEST + 1}\r\n\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert b" 413 " in line


async def test_an_endless_body_is_cut(tmp_path: Path) -> None:
    """Without a declared length, reading ends at the limit."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 2**20
            yield b" " * 2**20

    async with opened_gateway(tmp_path) as gateway:
        try:
            response = await gateway.client.post(CHAT, content=endless())
            assert response.status_code == 413
        except httpx.TransportError:
            pass  # the connection was closed while the client was writing
    assert sent < 2 * LARGEST


async def test_bodies_beyond_the_room_wait_for_their_turn(tmp_path: Path) -> None:
    """Two bodies of unknown length leave no room, and the next one is answered after them."""
    gate = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" "
        await gate.wait()
        yield json.dumps(HELLO).encode()

    async with opened_gateway(tmp_path) as gateway:
        asked = {asyncio.create_task(gateway.client.post(CHAT, content=slow())) for _ in range(2)}
        await gateway.client.get("/v1/models")  # both have their room by now
        asked.add(asyncio.create_task(gateway.client.post(CHAT, json=HELLO)))
        done, _ = await asyncio.wait(asked, timeout=0.3)
        gate.set()
        answers = await asyncio.gather(*asked)
    assert done == set()
    assert [answer.status_code for answer in answers] == [200] * 3


async def test_names_of_a_programs_own_making_take_no_memory(tmp_path: Path) -> None:
    """A hundred are counted one by one, and the rest together."""
    async with opened_gateway(tmp_path) as gateway:
        for number in range(110):
            name = {f"field-{number}": 1, "model": f"model-{number}" + "x" * 10_000}
            await gateway.client.post(CHAT, json={**HELLO, **name})
        seen = gateway.switch.seen
    for counter in (seen.requested_models, seen.dropped_fields):
        assert len(counter) == 101
        assert sum(counter.values()) == 110
        assert max(map(len, counter)) <= 100


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_google_has_its_key_and_its_stream_in_the_address(
    tmp_path: Path, version: str
) -> None:
    """An answer is one body, an event, or the only item of a list."""
    path = f"/{version}/models/some-model"
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
    async with opened_gateway(tmp_path) as gateway:
        key, client = {"key": gateway.key}, gateway.client
        client.headers["authorization"] = ""
        one = await client.post(f"{path}:generateContent", json=body, params=key)
        listed = await client.post(f"{path}:streamGenerateContent", json=body, params=key)
        event = await client.post(
            f"{path}:streamGenerateContent",
            json=body,
            params={"alt": "sse"},
            headers={"x-goog-api-key": gateway.key},
        )
        counted = await client.post(f"{path}:countTokens", json=body, params=key)
        refused = await client.post(f"{path}:generateContent", json={}, params=key)
        assert gateway.switch.seen.requested_models == {"some-model": 4}
    [candidate] = one.json()["candidates"]
    assert candidate["content"] == {"role": "model", "parts": [{"text": "Done."}]}
    assert [each["candidates"] for each in listed.json()] == [[candidate]]
    assert json.loads(event.text.removeprefix("data: "))["candidates"] == [candidate]
    assert counted.json() == {"totalTokens": len(json.dumps(body)) // 4}
    assert refused.json()["error"]["status"] == "INVALID_ARGUMENT"
