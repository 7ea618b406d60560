"""Stop a run without losing calls that are being paid for.

The first Ctrl-C or SIGTERM, or a pause, cancellation or other end on a Prefect server, lets the
calls and commands in flight finish and be recorded; no new ones start. Work that is still running
after `Timings.stop_grace_s` is cut off. A second signal cuts off everything at once. A run in a
terminal stops in the same way when the terminal is closed, or when the program that reads its
output has ended.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import Abort, ObjectNotFound, Pause
from prefect.settings import get_current_settings
from prefect.states import AwaitingRetry, Cancelled, Crashed, Suspended

from agent.errors import Interrupted
from agent.timings import timings
from flows.display.terminal import discard, on_lost_reader, say
from flows.experiments.stop import RESUME, Stop
from flows.server.flow_run import find_own
from flows.server.settings import JOB_TAG

PAUSED = "durabench.flow-run.paused"
"""Last event of a flow run that is paused, or is left to another worker."""

WORKER_STOPPED = "Its worker was stopped. Calls in flight were finished."
"""Message of a flow run whose worker was stopped."""

_RETRIES_AT_STOP = 2
"""Requests that Prefect's client repeats after a signal, for 6 s. Its 5 take a minute each time."""


@asynccontextmanager
async def graceful_stop() -> AsyncIterator[Stop]:
    """Handle SIGINT, SIGTERM, and a pause or cancellation on a Prefect server, during a flow.

    Raises:
        Interrupted: the flow was stopped, or was still running `Timings.stop_grace_s` after the
            stop request.
        Pause: the flow run was paused and has stopped; on resume it is run again from the top.
        Abort: the flow run of a deployment was cancelled or given up, and keeps that state; or its
            worker was stopped, and a job is Scheduled again while anything else is Crashed.
    """
    stop = Stop()
    try:
        async with cut_off(timings().stop_grace_s) as start_countdown:
            with (
                _handle_signals(stop, start_countdown),
                _handle_lost_reader(stop, start_countdown),
            ):
                async with _watch_flow_run(stop, start_countdown):
                    yield stop
    except Pause:  # Prefect raises it between task runs if it notices a suspension first
        sign_off()
        raise
    except Interrupted:
        state, context = stop.by, FlowRunContext.get()
        if state is None and context is not None:  # Prefect may have noticed a suspension
            state = context.flow_run_suspension_request.get_state()
        if state is not None:
            await _end_as(state)
        elif stop.requested:
            await _hand_back(stop)
        raise


@asynccontextmanager
async def cut_off(grace_s: float) -> AsyncIterator[Callable[[], None]]:
    """Yield a callback for stop requests. Cut off the block if it takes too long after a request.

    A flow that ended with the cancellation itself would count as crashed.

    Raises:
        Interrupted: the block was cut off.
    """
    try:
        async with asyncio.timeout(None) as limit:
            yield lambda: limit.reschedule(asyncio.get_running_loop().time() + grace_s)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Interrupted(f"cut off after {grace_s:.0f} s; {RESUME}") from None


@contextmanager
def _handle_signals(stop: Stop, start_countdown: Callable[[], None]) -> Iterator[None]:
    """Handle the signals; the second one cuts off, as Ctrl-C does in any program.

    A closed terminal may send several SIGHUP, which count as one. Under `nohup`, they are ignored.
    """
    loop, run = asyncio.get_running_loop(), find_own()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    second = dict(previous)
    if callable(previous[signal.SIGINT]) and (run is None or run.deployment_id is None):
        # Prefect's handler raises in the event loop, where no flow can catch it.
        second[signal.SIGTERM] = previous[signal.SIGINT]
    if (on_hangup := signal.getsignal(signal.SIGHUP)) != signal.SIG_IGN:
        previous[signal.SIGHUP] = on_hangup
        second[signal.SIGHUP] = signal.SIG_IGN
    terminals = [output for output in (sys.stdout, sys.stderr) if output.isatty()]

    def handle(number: int, frame: FrameType | None) -> None:
        stop.requested = True  # set it now, without waiting for the event loop
        for other, handler in second.items():
            signal.signal(other, handler)
        if number == signal.SIGHUP:
            discard(*terminals)
        loop.call_soon_threadsafe(start_countdown)
        get_current_settings().client.max_retries = _RETRIES_AT_STOP
        # Not here: the signal may have interrupted a logger, which would wait for itself.
        loop.call_soon_threadsafe(
            say, "stopping: calls in flight are finished and recorded; once more stops at once"
        )

    for number in previous:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _handle_lost_reader(stop: Stop, start_countdown: Callable[[], None]) -> Iterator[None]:
    """Ask to stop when the reader of the output is gone, as after `2>&1 | head`.

    A flow run of a deployment continues: a worker that stops ends its flow runs itself.
    """
    loop, run = asyncio.get_running_loop(), find_own()

    def end() -> None:
        if run is None or run.deployment_id is None:
            stop.requested = True
            loop.call_soon_threadsafe(start_countdown)

    with on_lost_reader(end):
        yield


@asynccontextmanager
async def _watch_flow_run(stop: Stop, start_countdown: Callable[[], None]) -> AsyncIterator[None]:
    """Ask to stop when the flow run is paused or ended, even before the block was entered."""
    run = find_own()
    if run is None:
        yield
        return
    async with get_client() as client:
        await _check_flow_run(client, run.id, stop, start_countdown)

        async def watch() -> None:
            while stop.by is None:
                await asyncio.sleep(timings().pause_poll_s)
                await _check_flow_run(client, run.id, stop, start_countdown)

        watcher = asyncio.create_task(watch())
        try:
            yield
        finally:
            watcher.cancel()
            await asyncio.wait({watcher})


async def _check_flow_run(
    client: PrefectClient, run_id: UUID, stop: Stop, start_countdown: Callable[[], None]
) -> None:
    """Ask to stop if the flow run was paused or ended. Ignore an unreachable server."""
    with suppress(httpx.HTTPError, ObjectNotFound):
        run = await client.read_flow_run(run_id)
        state, is_deployed = run.state, run.deployment_id is not None
        if state is None:
            return
        # The flow run of a deployment may have been ended from outside, as if it were dead. Prefect
        # would kill this process minutes later, when it renews its slot of the deployment's limit,
        # and calls in flight would be lost.
        is_given_up = is_deployed and state.is_final()
        is_stopped = state.is_paused() or state.is_cancelling() or state.is_cancelled()
        if not (is_stopped or is_given_up):
            return
        details = state.state_details
        if state.is_paused() and is_deployed and not (details and details.pause_reschedule):
            # This process ends, and a new one continues. By default, Prefect expects the process
            # to wait, and sets it to Running.
            until = details.pause_timeout if details else None
            suspended: State[Any] = Suspended(pause_expiration_time=until)
            await client.set_flow_run_state(run.id, suspended, force=True)
        stop.by, stop.requested = state, True
        say(
            f"{(state.name or state.type.value).lower()}: calls in flight are finished and recorded"
        )
        start_countdown()


async def _end_as(state: State[Any]) -> None:
    """Leave the flow run in the requested state."""
    run = find_own()
    assert run is not None
    if state.is_paused():
        sign_off()
        if run.deployment_id is not None:
            raise Pause(state=state) from None
        return
    if state.is_final() and not state.is_cancelled():
        raise _abort("the flow run was given up", state) from None
    cancelled: State[Any] = Cancelled(message="Everything in flight was finished and recorded.")
    with suppress(httpx.HTTPError):
        async with get_client() as client:
            await client.set_flow_run_state(run.id, cancelled, force=True)
    if run.deployment_id is not None:
        raise _abort("the flow run was cancelled", cancelled) from None


async def _hand_back(stop: Stop) -> None:
    """Leave the flow run of a deployment, whose worker was stopped, to other workers.

    Nothing happens if the server does not answer.
    """
    run = find_own()
    if run is None or run.deployment_id is None:
        return
    with suppress(httpx.HTTPError, ObjectNotFound):
        async with get_client() as client:
            # A worker also ends the process of a flow run that is cancelled.
            await _check_flow_run(client, run.id, stop, lambda: None)
            if stop.by is None:
                state: State[Any] = Crashed(message=WORKER_STOPPED)
                if JOB_TAG in run.tags:
                    state = AwaitingRetry(message=WORKER_STOPPED)
                    sign_off()
                await client.set_flow_run_state(run.id, state)
                raise _abort("its worker was stopped", state) from None
    if stop.by is not None:
        await _end_as(stop.by)


def _abort(why: str, state: State[Any]) -> Abort:
    aborted = Abort(why)
    aborted.state = state  # type: ignore[attr-defined]  # the engine reads it
    return aborted


def sign_off() -> None:
    """Announce that no more heartbeats follow; otherwise the flow run would be considered dead."""
    run = find_own()
    assert run is not None
    emit_event(
        PAUSED,
        resource={"prefect.resource.id": f"prefect.flow-run.{run.id}"},
        related=[
            {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"}
            for tag in run.tags
        ],
    )
