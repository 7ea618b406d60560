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
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.session.log import JournalLog
from agent.session.session import Session
from tests.agent.arms.conftest import TASK, make_repository
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
    journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
    journal.start(Attempt("a", "experiment", "arm", "instance", 0, "{}"))
    async with AsyncExitStack() as stack:
        lease = await stack.enter_async_context(hold_lease(journal, "a"))
        log = JournalLog(journal, lease, Blobs(folder / "blobs"), journal.steps("a"), ())
        built = models.build(models.parse(model or SCRIPTED), TASK, 0)
        session = await stack.enter_async_context(
            Session.start(
                attempt_id="a",
                models={"": built},
                workspaces=HostWorkspaces(make_repository),
                log=log,
            )
        )
        switch, key = Switch(Calls(session.scope("agent"), []), {}), make_token()
        stack.push_async_callback(switch.cancel)
        address = await stack.enter_async_context(serve(app(switch, "m", key), None))
        base = f"http://127.0.0.1:{address.port}"
        client = httpx.AsyncClient(
            base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=30
        )
        yield Gateway(switch, await stack.enter_async_context(client), address.port, key)
