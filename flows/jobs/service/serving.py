"""Run the service: its address, its token and its server."""

import asyncio
import os

import uvicorn
from prefect.settings import PREFECT_API_URL

from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.jobs.service.app import create
from flows.jobs.service.guard import Limits, is_loopback
from flows.server.first_contact import is_open
from flows.server.settings import open_api
from flows.server.setup import reach_server
from flows.storage.lake import Lake

VARIABLE = "DURABENCH_SERVICE_TOKEN"
_SHORTEST_TOKEN = 16
_CLOSING_S = 5


async def serve(host: str, port: int, lake: str | None, *, writes_per_minute: int) -> None:
    """Serve until a signal ends this process.

    Raises:
        UsageError: the address is open to others and there is no token or Prefect's API wants no
            password, or no Prefect server is configured.
        InfrastructureError: the Prefect server does not answer.
    """
    limits = Limits(_token(host), is_loopback(host), writes_per_minute)
    await reach_server("serve")
    await _check_prefect(host)
    config = uvicorn.Config(
        create(Lake.existing(lake), limits),
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


async def _check_prefect(host: str) -> None:
    """Check that Prefect does not do without a password what the service wants a token for.

    Raises:
        UsageError: others can reach the address of the service, and Prefect's API is open.
    """
    url = str(PREFECT_API_URL.value())
    if not await asyncio.to_thread(is_open, url):
        return
    if not is_loopback(host):
        raise UsageError(open_api(url))
    say(f"note: {open_api(url)}")


def _token(host: str) -> str:
    """Return the token that clients need, or an empty text.

    Raises:
        UsageError: others can reach the address, and there is no token; or it is too short.
    """
    token = os.environ.get(VARIABLE, "").strip()
    if not token and not is_loopback(host):
        raise UsageError(
            f"others can reach {host}, and {VARIABLE} is not set: set it to a long random text, "
            "which clients send as a bearer token, or serve on 127.0.0.1"
        )
    if token and len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"{VARIABLE} is shorter than {_SHORTEST_TOKEN} characters: make it longer")
    return token
