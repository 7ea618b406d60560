"""`durabench setup`: what runs need on a Prefect server, made or brought up to date."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import httpx
from prefect.automations import Automation
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, PauseWorkPool, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL
from prefect.workers.process import ProcessWorker

from agent.errors import InfrastructureError
from agent.timings import timings
from flows.errors import UsageError
from flows.server import events
from flows.server.first_contact import contact
from flows.server.settings import CELLS, POOL, as_lines
from flows.server.stopping import PAUSED

DEFAULT_CELLS = 64

BROKEN_CELLS, BROKEN_S = 20, 600.0
"""So many cells that end as infrastructure in so many seconds are no coincidence."""

_TAG = "prefect.tag.durabench"
_SIGNS_OF_LIFE = {PAUSED} | {
    f"prefect.flow-run.{name}"
    for name in ["heartbeat", "Completed", "Failed", "Crashed", "Cancelled"]
}


@dataclass(frozen=True)
class Wanted:
    """What the operator asked for."""

    cells: int | None = None
    """Cells at the same time over the whole server; None keeps what is there."""
    notify: str | None = None
    """A notification block, as `slack-webhook/team`."""
    zombie_s: float = field(default_factory=lambda: timings().heartbeat_silence_s)


def has_server() -> bool:
    """Whether PREFECT_API_URL, or the profile, names a server."""
    return bool(PREFECT_API_URL.value())


async def set_up(wanted: Wanted) -> list[str]:
    """Make or update everything; a line for each thing that was looked at.

    Raises:
        UsageError: no server is configured, or it has no such notification block.
        InfrastructureError: it does not answer.
    """
    if not has_server():
        raise UsageError(
            "setup is for a Prefect server, and PREFECT_API_URL names none: start one with "
            "`prefect server start` and export PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    await asyncio.to_thread(contact, str(PREFECT_API_URL.value()))
    try:
        async with get_client() as client:
            return await _made(client, wanted)
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        url = PREFECT_API_URL.value()
        raise InfrastructureError(f"the Prefect API {url} does not answer: {error}") from None


async def _made(client: PrefectClient, wanted: Wanted) -> list[str]:
    pool_id, pool = await _pool(client)
    automations = [crash_zombies(wanted.zombie_s), pause_the_pool(pool_id)]
    if wanted.notify:
        automations.append(await _notification(client, wanted.notify))
    cells = await _cells(client, wanted.cells)
    return [pool, cells, *[await _automation(client, each) for each in automations]]


def write_settings(path: Path) -> None:
    """Write the server's settings as a file of environment variables.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text("\n".join(as_lines()) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def crash_zombies(zombie_s: float) -> AutomationCore:
    """Flow runs whose process has died without a word become Crashed."""
    return AutomationCore(
        name="durabench: dead flow runs are Crashed",
        description="A flow run with the tag durabench that has sent heartbeats and sends none "
        "any more.",
        trigger=EventTrigger(
            # Not from Running on: two events at a time for each flow run are more than Prefect's
            # SQLite takes. Of cells the benchmark finds out by itself.
            after={"prefect.flow-run.heartbeat"},
            expect=_SIGNS_OF_LIFE,
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.id": _TAG, "prefect.resource.role": "tag"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=zombie_s),
        ),
        actions=[
            ChangeFlowRunState(
                name=None,
                force=False,
                state=StateType.CRASHED,
                message=f"No heartbeat for {zombie_s:.0f} seconds: its process is gone.",
            )
        ],
    )


def pause_the_pool(pool_id: UUID) -> AutomationCore:
    """No more cells are handed out where everything breaks. Off until somebody wants it."""
    return AutomationCore(
        name="durabench: pause the pool when infrastructure breaks",
        description=f"{BROKEN_CELLS} cells ended as infrastructure within {BROKEN_S:.0f} seconds: "
        "nothing is lost, but nothing comes of going on. Resume the pool when it is repaired.",
        enabled=False,
        trigger=EventTrigger(
            expect={events.INFRASTRUCTURE},
            posture=Posture.Reactive,
            threshold=BROKEN_CELLS,
            within=timedelta(seconds=BROKEN_S),
        ),
        actions=[PauseWorkPool(source="selected", work_pool_id=pool_id)],
    )


def tell(block_id: UUID) -> AutomationCore:
    """A message for each thing that an operator may want to act on, per experiment."""
    action: ActionTypes = SendNotification(
        block_document_id=block_id,
        subject="{{ event.event }}: {{ event.resource.name }}",
        body="{{ event.payload | tojson }}",
    )
    return AutomationCore(
        name="durabench: tell people",
        description="Each kind of event of an experiment at most once in ten minutes.",
        trigger=EventTrigger(
            expect={"durabench.*"},
            for_each={"prefect.resource.id", "durabench.event"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=BROKEN_S),
        ),
        actions=[action],
    )


async def _pool(client: PrefectClient) -> tuple[UUID, str]:
    try:
        pool = await client.read_work_pool(POOL)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        made = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
        pool = await client.create_work_pool(made)
        return pool.id, f"made     work pool {POOL}, type {pool.type}"
    return pool.id, f"is there work pool {POOL}, type {pool.type}"


async def _cells(client: PrefectClient, cells: int | None) -> str:
    try:
        there = await client.read_global_concurrency_limit_by_name(CELLS)
    except ObjectNotFound:
        done, limit = "made    ", cells or DEFAULT_CELLS
    else:
        limit = cells or there.limit
        done = "is there" if limit == there.limit else "updated "
    await client.upsert_global_concurrency_limit_by_name(CELLS, limit)
    return f"{done} global concurrency limit {CELLS}: {limit} cells at the same time"


async def _automation(client: PrefectClient, wanted: AutomationCore) -> str:
    """Make an automation, or make it what it should be; whether it is on stays as it is."""
    found = await client.read_automations_by_name(wanted.name)
    if not found:
        await client.create_automation(wanted)
        state = "" if wanted.enabled else " (off: turn it on in the UI if you want it)"
        return f"made     automation {wanted.name!r}{state}"
    there = Automation.model_validate(found[0].model_dump())
    kept = wanted.model_copy(update={"enabled": there.enabled})
    if _content(there) != _content(kept):
        await client.update_automation(found[0].id, kept)
        return f"updated  automation {wanted.name!r}"
    return f"is there automation {wanted.name!r}"


def _content(automation: AutomationCore) -> dict[str, object]:
    # Not as JSON, in which the order of a set is that of this process.
    return automation.model_dump(include={"description", "trigger", "actions"})


async def _notification(client: PrefectClient, block: str) -> AutomationCore:
    slug, _, name = block.partition("/")
    try:
        found = await client.read_block_document_by_name(name, slug)
    except ObjectNotFound:
        raise UsageError(
            f"the Prefect server has no block {block}: make one under Blocks in its UI, of a "
            "type that can notify, and name it as TYPE/NAME"
        ) from None
    return tell(found.id)
