"""A run that is asked to stop."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TextIO
from uuid import UUID

import pytest
from prefect import Flow, flow, task
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.events.worker import EventsWorker
from prefect.exceptions import Abort, Pause
from prefect.flow_engine import run_flow_async
from prefect.states import Cancelling, Crashed, Paused, Suspended
from rich.console import Console

from agent.errors import Interrupted
from flows.server.settings import JOB_TAG
from flows.server.stopping import PAUSED, WORKER_STOPPED, graceful_stop
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("prefect")


@flow
async def stopped(goes_on: bool) -> str:
    async with graceful_stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.requested or goes_on:
            await asyncio.sleep(0.01)
    return "finished what was in flight"


async def test_work_that_ends_in_time_is_not_cut_off() -> None:
    """Work that ends within the grace period is not cut off."""
    state = await stopped(goes_on=False, return_state=True)
    assert await state.result() == "finished what was in flight"


@flow
async def unread() -> str:
    async with graceful_stop() as stop:
        console = Console(file=_unread_pipe())
        for line in ("the first", "the second"):
            console.print(line)
        while not stop.requested:
            await asyncio.sleep(0.01)
    return "finished what was in flight"


def _unread_pipe() -> TextIO:
    """Return a pipe to write to whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


async def test_a_run_whose_output_is_no_longer_read_is_stopped() -> None:
    """As after `2>&1 | head`. What is printed later is discarded."""
    assert await unread() == "finished what was in flight"


async def test_work_that_takes_too_long_is_cut_off(
    set_timings: Callable[..., None],
) -> None:
    """Work that exceeds the grace period is cut off. The run counts as interrupted, not as
    crashed."""
    set_timings(stop_grace_s=0.1)
    state = await stopped(goes_on=True, return_state=True)
    assert state.is_failed()
    with pytest.raises(Interrupted, match="cut off after 0 s; run the same command again"):
        await state.result()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


entered: set[UUID] = set()
"""The flow runs that handle a stop. Prefect ends one that is suspended before."""


def enter() -> None:
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    entered.add(context.flow_run.id)


@flow
async def waiting() -> None:
    async with graceful_stop() as stop:
        enter()
        while not stop.requested:
            await asyncio.sleep(0.01)
        stop.check()


@task
async def nap() -> None:
    await asyncio.sleep(0.1)


@flow
async def napping() -> None:
    async with graceful_stop():
        enter()
        while True:
            await nap()


async def at_work(
    client: PrefectClient,
    name: str,
    work: Flow[[], Coroutine[Any, Any, None]] = waiting,
    tags: Sequence[str] = (),
) -> tuple[FlowRun, "asyncio.Task[object]"]:
    """Return a flow run of a deployment that handles a stop by now, and the task that runs it."""
    deployment = await client.create_deployment(
        await client.create_flow(work), name, tags=list(tags)
    )
    run = await client.create_flow_run_from_deployment(deployment)
    running = asyncio.create_task(run_flow_async(work, flow_run=run))
    await until(lambda: run.id in entered)
    return run, running


async def test_a_run_that_was_paused_in_place_begins_anew_when_it_is_resumed(
    set_timings: Callable[..., None],
) -> None:
    """A pause that leaves the process waiting is Prefect's default. This process ends, so the
    resumed flow run is scheduled instead of Running without a process."""
    set_timings(pause_poll_s=0.05)
    async with get_client() as client:
        run, running = await at_work(client, "waiting")
        paused = Paused(timeout_seconds=3600, reschedule=False)
        await client.set_flow_run_state(run.id, paused)
        with pytest.raises(Pause):
            await asyncio.wait_for(running, 60)
        left = (await client.read_flow_run(run.id)).state
        assert left is not None
        assert (left.name, left.state_details.pause_timeout) == (
            "Suspended",
            paused.state_details.pause_timeout,
        )
        await client.resume_flow_run(run.id)
        resumed = (await client.read_flow_run(run.id)).state
        assert resumed is not None
        assert resumed.is_scheduled()
        await client.delete_deployment(run.deployment_id)


@pytest.fixture
def own_events() -> None:
    """End the connection that events of earlier tests in this process went through.

    Prefect would use it for further events, although that server may have ended.
    """
    EventsWorker.drain_all(timeout=30)


@pytest.mark.usefixtures("own_events")
@pytest.mark.parametrize("work", [waiting, napping], ids=["seen here", "seen by Prefect"])
async def test_a_suspended_run_signs_off(
    work: Flow[[], Coroutine[Any, Any, None]], set_timings: Callable[..., None]
) -> None:
    """It is not considered dead while it waits, whether this program or Prefect itself noticed the
    suspension first."""
    set_timings(pause_poll_s=0.05 if work is waiting else 600)
    async with get_client() as client:
        run, running = await at_work(client, f"signs-off-{work.name}", work)
        await client.set_flow_run_state(run.id, Suspended(timeout_seconds=3600))
        with pytest.raises(Pause):
            await asyncio.wait_for(running, 60)
        of_run = {"resource": {"id": [f"prefect.flow-run.{run.id}"]}, "event": {"name": [PAUSED]}}

        async def told() -> int:
            answer = await client.request("POST", "/events/filter", json={"filter": of_run})
            return len(answer.json()["events"])

        async with asyncio.timeout(60):
            while not await told():
                await asyncio.sleep(0.1)
        # Prefect reads the deployment when it sends an event, and drops the event without it.
        await client.delete_deployment(run.deployment_id)


async def test_a_run_that_was_given_up_stops(set_timings: Callable[..., None]) -> None:
    """A flow run that is marked as Crashed although its process lives stops and stays Crashed."""
    set_timings(pause_poll_s=0.05)
    async with get_client() as client:
        run, running = await at_work(client, "given-up")
        crashed = Crashed(message="No heartbeat.")
        await client.set_flow_run_state(run.id, crashed, force=True)
        with pytest.raises(Abort):
            await asyncio.wait_for(running, 60)
        left = (await client.read_flow_run(run.id)).state
        assert left is not None
        assert (left.name, left.message) == ("Crashed", "No heartbeat.")
        await client.delete_deployment(run.deployment_id)


@pytest.mark.parametrize(("tag", "name"), [("durabench", "Crashed"), (JOB_TAG, "AwaitingRetry")])
async def test_a_run_whose_worker_is_stopped_is_left_to_others(tag: str, name: str) -> None:
    """A benchmark or a shard is Crashed at once, and a job is scheduled for another worker."""
    async with get_client() as client:
        run, running = await at_work(client, f"left-{tag}", tags=[tag])
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Abort):
            await asyncio.wait_for(running, 60)
        left = (await client.read_flow_run(run.id)).state
        assert left is not None
        assert (left.name, left.message) == (name, WORKER_STOPPED)
        await client.delete_deployment(run.deployment_id)


async def test_a_run_that_is_cancelled_with_a_signal_is_cancelled() -> None:
    """A worker ends the process of a cancelled flow run with the signal that also stops it."""
    async with get_client() as client:
        run, running = await at_work(client, "cancelled")
        await client.set_flow_run_state(run.id, Cancelling())
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Abort):
            await asyncio.wait_for(running, 60)
        left = (await client.read_flow_run(run.id)).state
        assert left is not None
        assert left.is_cancelled()
        await client.delete_deployment(run.deployment_id)
