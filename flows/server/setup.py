"""`durabench setup`: create or update everything that runs need on a Prefect server."""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, PauseWorkPool, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL
from prefect.workers.process import ProcessWorker

from agent.errors import InfrastructureError
from agent.timings import timings
from flows.display.errors import UsageError
from flows.server import events
from flows.server.api import contact, is_open
from flows.server.engine import COMMAND
from flows.server.retry import beside_others
from flows.server.settings import (
    CELLS,
    CLIENTS,
    JOB_TAG,
    POOL,
    QUEUES,
    as_lines,
    missing_lines,
    new_credentials,
)
from flows.server.stopping import PAUSED

DEFAULT_CELLS = 64

BROKEN_CELLS, BROKEN_S = 20, 600.0
"""This many infrastructure failures within this many seconds mean a systematic problem."""

_TAG = "prefect.tag.durabench"
_JOB_TAG = f"prefect.tag.{JOB_TAG}"
_SIGNS_OF_LIFE = {PAUSED} | {
    f"prefect.flow-run.{name}"
    for name in ["heartbeat", "Completed", "Failed", "Crashed", "Cancelled"]
}


@dataclass(frozen=True)
class SetupRequest:
    """Settings of a server, as the operator asks for them."""

    cells: int | None = None
    """Maximum concurrent cells over the whole server; None keeps the current limit."""
    notify: str | None = None
    """A notification block, such as `slack-webhook/team`."""
    zombie_s: float = field(default_factory=lambda: timings().heartbeat_silence_s)


def has_server() -> bool:
    """Return True if PREFECT_API_URL or the profile names a server."""
    return bool(PREFECT_API_URL.value())


async def reach_server(command: str) -> None:
    """Check that a server is configured and answers. `command` needs it.

    Raises:
        UsageError: no server is configured.
        InfrastructureError: the server does not answer.
    """
    if not has_server():
        raise UsageError(
            f"{command} needs a Prefect server, and PREFECT_API_URL is not set: start one with "
            "`prefect server start` and export PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    await asyncio.to_thread(contact, str(PREFECT_API_URL.value()))


async def set_up(wanted: SetupRequest) -> list[str]:
    """Create or update everything. Return one line per change, and one per setting to change.

    Raises:
        UsageError: no server is configured, or the notification block does not exist.
        InfrastructureError: the server does not answer.
    """
    await reach_server("setup")
    try:
        async with get_client() as client:
            pool_id, lines = await _set_up_pool(client)
            automations = [
                crash_zombies(wanted.zombie_s),
                restart_dead_jobs(wanted.zombie_s),
                pause_the_pool(pool_id),
            ]
            if wanted.notify:
                automations.append(await _read_notification(client, wanted.notify))
            lines += await _set_up_queues(client)
            lines += await _set_up_limit(client, wanted.cells)
            for automation in automations:
                lines += await _set_up_automation(client, automation)
            return [*lines, *await _find_missing_settings(client)]
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        url = PREFECT_API_URL.value()
        raise InfrastructureError(f"the Prefect API {url} does not answer: {error}") from None


def write_settings(path: Path) -> None:
    """Write the server's settings, with a new password, as a file that only its owner can read.

    Raises:
        UsageError: the file exists or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(as_lines(new_credentials())) + "\n")
    except FileExistsError:
        raise UsageError(
            f"{path} exists and may have the password in use: name another file, or remove it"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def crash_zombies(zombie_s: float) -> AutomationCore:
    """Return the automation that marks flow runs as Crashed if their process died silently."""
    return AutomationCore(
        name="durabench: dead flow runs are Crashed",
        description="Flow runs with the tag durabench that stopped sending heartbeats.",
        trigger=_silence(_TAG, zombie_s),
        actions=[
            ChangeFlowRunState(
                name=None,
                force=False,
                state=StateType.CRASHED,
                message=f"No heartbeat for {zombie_s:.0f} seconds: its process is gone.",
            )
        ],
    )


def restart_dead_jobs(zombie_s: float) -> AutomationCore:
    """Return the automation that gives a job to another worker if its process died silently.

    Nothing is bought twice: the job continues from its rows and its journal.
    """
    return AutomationCore(
        name="durabench: dead jobs begin again",
        description=f"Flow runs with the tag {JOB_TAG} that stopped sending heartbeats.",
        trigger=_silence(_JOB_TAG, zombie_s),
        actions=[
            ChangeFlowRunState(
                name="AwaitingRetry",
                force=False,
                state=StateType.SCHEDULED,
                message=f"No heartbeat for {zombie_s:.0f} seconds: another worker continues.",
            )
        ],
    )


def _silence(tag: str, zombie_s: float) -> EventTrigger:
    """Return the trigger for flow runs with a tag whose heartbeats ceased."""
    return EventTrigger(
        # Not triggered by Running: two events per flow run are more than Prefect's SQLite can
        # handle. The benchmark detects dead cells itself.
        after={"prefect.flow-run.heartbeat"},
        expect=_SIGNS_OF_LIFE,
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related={"prefect.resource.id": tag, "prefect.resource.role": "tag"},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=zombie_s),
    )


def pause_the_pool(pool_id: UUID) -> AutomationCore:
    """Return the automation that pauses the work pool if everything fails. It is off by default."""
    return AutomationCore(
        name="durabench: pause the pool when infrastructure breaks",
        description=f"{BROKEN_CELLS} cells ended as infrastructure within {BROKEN_S:.0f} seconds: "
        "no data is lost, but further cells would also fail. Resume the pool after the repair.",
        enabled=False,
        trigger=EventTrigger(
            expect={events.INFRASTRUCTURE},
            posture=Posture.Reactive,
            threshold=BROKEN_CELLS,
            within=timedelta(seconds=BROKEN_S),
        ),
        actions=[PauseWorkPool(source="selected", work_pool_id=pool_id)],
    )


def notify(block_id: UUID) -> AutomationCore:
    """Return the automation that sends a message for each event of an experiment."""
    action: ActionTypes = SendNotification(
        block_document_id=block_id,
        subject="{{ event.event }}: {{ event.resource.name }}",
        body="{{ event.payload | tojson }}",
    )
    return AutomationCore(
        name="durabench: tell people",
        description="Each kind of event of an experiment, at most once in ten minutes.",
        trigger=EventTrigger(
            expect={"durabench.*"},
            for_each={"prefect.resource.id", "durabench.event"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=BROKEN_S),
        ),
        actions=[action],
    )


@beside_others
async def _set_up_pool(client: PrefectClient) -> tuple[UUID, list[str]]:
    try:
        pool = await client.read_work_pool(POOL)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        _set_command(template)
        creation = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
        pool = await client.create_work_pool(creation)
        return pool.id, [f"made     work pool {POOL}, type {pool.type}"]
    if pool.type != "process" or not _set_command(pool.base_job_template):
        return pool.id, []
    update = WorkPoolUpdate(base_job_template=pool.base_job_template)
    await client.update_work_pool(POOL, update)
    return pool.id, [f"updated  work pool {POOL}: flow runs finish their calls when a worker ends"]


def _set_command(template: dict[str, Any]) -> bool:
    """Set the command of flow runs in a template, unless it has one. Return True if it changed."""
    command = template.get("variables", {}).get("properties", {}).get("command")
    if command is None or command.get("default"):
        return False
    command["default"] = COMMAND
    return True


async def _set_up_queues(client: PrefectClient) -> list[str]:
    existing = {queue.name for queue in await client.read_work_queues(work_pool_name=POOL)}
    lines = []
    for priority, name in enumerate(QUEUES, 1):
        if name in existing:
            continue
        with suppress(ObjectAlreadyExists):  # another `durabench setup` was faster
            await client.create_work_queue(name, priority=priority, work_pool_name=POOL)
            lines.append(f"made     work queue {name}")
    return lines


@beside_others
async def _set_up_limit(client: PrefectClient, cells: int | None) -> list[str]:
    try:
        current = await client.read_global_concurrency_limit_by_name(CELLS)
    except ObjectNotFound:
        done, limit = "made    ", cells or DEFAULT_CELLS
    else:
        if cells in (None, current.limit):
            return []
        done, limit = "updated ", cells or current.limit
    await client.upsert_global_concurrency_limit_by_name(CELLS, limit)
    return [f"{done} global concurrency limit {CELLS}: {limit} cells at the same time"]


async def _set_up_automation(client: PrefectClient, wanted: AutomationCore) -> list[str]:
    """Create or update an automation. Whether it is enabled stays unchanged."""
    existing = await _read_only_automation(client, wanted.name)
    if existing is None:
        await client.create_automation(wanted)
        await _read_only_automation(client, wanted.name)
        state = "" if wanted.enabled else " (off: turn it on in the UI if you want it)"
        return [f"made     automation {wanted.name!r}{state}"]
    updated = wanted.model_copy(update={"enabled": existing.enabled})
    if _content(existing) != _content(updated):
        await client.update_automation(existing.id, updated)
        return [f"updated  automation {wanted.name!r}"]
    return []


async def _read_only_automation(client: PrefectClient, name: str) -> Automation | None:
    """Return the automation of a name, or None. Of several, delete all but the first.

    Prefect allows duplicates, so each `durabench setup` at the same moment creates one.
    """
    automations = await client.read_automations_by_name(name)
    automations.sort(key=lambda automation: automation.id)
    for duplicate in automations[1:]:
        try:
            await client.delete_automation(duplicate.id)
        except PrefectHTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:  # another setup was faster
                raise
    return automations[0] if automations else None


def _content(automation: AutomationCore) -> dict[str, object]:
    # Do not compare as JSON: the order of a set there differs between processes.
    return automation.model_dump(include={"description", "trigger", "actions"})


async def _find_missing_settings(client: PrefectClient) -> list[str]:
    """Return the settings that the server lacks."""
    settings = (await client.request("GET", "/admin/settings")).json()
    is_public = await asyncio.to_thread(is_open, str(PREFECT_API_URL.value()))
    lines = missing_lines(settings, is_open=is_public)
    if not lines:
        return []
    password = f"; the first also as {CLIENTS} for all clients and workers" * is_public
    return [f"missing  settings in the environment of `prefect server start`{password}:", *lines]


async def _read_notification(client: PrefectClient, block: str) -> AutomationCore:
    slug, _, name = block.partition("/")
    try:
        document = await client.read_block_document_by_name(name, slug)
    except ObjectNotFound:
        raise UsageError(
            f"the Prefect server has no block {block}: create a notification block under Blocks "
            "in its UI, and give its name as TYPE/NAME"
        ) from None
    return notify(document.id)
