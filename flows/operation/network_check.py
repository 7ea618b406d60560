"""The check of `durabench doctor` on the way to the network."""

import asyncio
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from agent.errors import one_line
from flows.operation.finding import Finding
from flows.operation.surroundings import address_of, proxies

_CONTACT_S = 5.0


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


async def check() -> list[Finding]:
    """Ask a server on loopback through the client that models use, and contact each proxy."""
    from agent.models.http import client

    server = HTTPServer(("127.0.0.1", 0), _Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        answer = await client().get(f"http://127.0.0.1:{server.server_port}/", timeout=_CONTACT_S)
        answer.raise_for_status()
        findings = [Finding("ok", "a request on loopback is answered")]
    except Exception as error:
        findings = [Finding("problem", f"a request on loopback fails: {one_line(error)}")]
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
    for name, value in proxies().items():
        findings.append(await asyncio.to_thread(_contact, name, value))
    return findings


def _contact(name: str, value: str) -> Finding:
    host, port = address_of(value)
    try:
        socket.create_connection((host, port), timeout=_CONTACT_S).close()
    except OSError as error:
        why = error.strerror or str(error)
        return Finding(
            "problem",
            f"{name}: the proxy {host}:{port} does not answer: {why}; correct or unset {name}",
        )
    return Finding("ok", f"{name}: the proxy {host}:{port} answers")
