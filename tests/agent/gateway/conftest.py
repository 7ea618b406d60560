"""A gateway on loopback, over a real session and journal, on a model that always answers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from agent import models
from agent.gateway.app import app, make_token, serve
from agent.gateway.calls import Calls
from agent.gateway.switch import Switch
from tests.agent.arms.conftest import TASK, make_repository
from tests.agent.attempts import begin, open_session
from tests.agent.workspaces_on_host import HostWorkspaces

SCRIPTED = {"provider": "scripted", "replies": ["Done."] * 10_000}


@dataclass(frozen=True)
class Gateway:
    """A gateway, and a client with its key."""

    switch: Switch
    client: httpx.AsyncClient
    port: int
    key: str


@asynccontextmanager
async def opened_gateway(folder: Path, model: object = None) -> AsyncIterator[Gateway]:
    """Serve the gateway of one attempt."""
    built = models.build(models.parse(model or SCRIPTED), TASK, 0)
    workspaces = HostWorkspaces(make_repository)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            open_session(begin(folder), folder, built, workspaces=workspaces)
        )
        switch, key = Switch(Calls(session.scope("agent"), []), {}), make_token()
        stack.push_async_callback(switch.cancel)
        address = await stack.enter_async_context(serve(app(switch, "m", key), None))
        base = f"http://127.0.0.1:{address.port}"
        client = httpx.AsyncClient(
            base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=30
        )
        yield Gateway(switch, await stack.enter_async_context(client), address.port, key)
