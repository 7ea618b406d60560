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
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import Abort, ObjectNotFound, Pause
from prefect.states import Cancelled, Suspended

from agent.errors import Interrupted
from agent.timings import timings
from flows.display.terminal import discard, on_lost_reader, say
from flows.experiments.stop import RESUME, Stop

PAUSED = "durabench.flow-run.paused"
"""Last event of a paused flow run."""


@asynccontextmanager
async def graceful_stop() -> AsyncIterator[Stop]:
    """Handle SIGINT, SIGTERM, and a pause or cancellation on a Prefect server, during a flow.

    Raises:
        Interrupted: the flow was stopped, or was still running `Timings.stop_grace_s` after the
            stop request.
        Pause: the flow run was paused and has stopped; on resume it is run again from the top.
        Abort: the flow run of a deployment was cancelled or given up; it has stopped and keeps that
            state.
    """
    stop = Stop()
    try:
        async with cut_off(timings().stop_grace_s) as asked:
            with _signals(stop, asked), _unread(stop, asked):
                async with _watched(stop, asked):
                    yield stop
    except Pause:  # Prefect raises it between task runs if it notices a suspension first
        sign_off()
        raise
    except Interrupted:
        state = stop.by or _suspension()
        if state is None:
            raise
        await _end_as(state)
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

            def asked() -> None:
                limit.reschedule(asyncio.get_running_loop().time() + grace_s)

            yield asked
    except TimeoutError:
        if not limit.expired():
            raise
        raise Interrupted(f"cut off after {grace_s:.0f} s; {RESUME}") from None


@contextmanager
def _signals(stop: Stop, asked: Callable[[], None]) -> Iterator[None]:
    """Handle the signals; at the first one, restore the previous handlers for the second.

    A closed terminal may send several SIGHUP, which count as one. Under `nohup`, they are ignored.
    """
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if (on_hangup := signal.getsignal(signal.SIGHUP)) != signal.SIG_IGN:
        previous[signal.SIGHUP] = on_hangup
    terminals = [output for output in (sys.stdout, sys.stderr) if output.isatty()]

    def handle(number: int, frame: FrameType | None) -> None:
        stop.requested = True  # set it now, without waiting for the event loop
        for each, handler in previous.items():
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else handler)
        if number == signal.SIGHUP:
            discard(*terminals)
        loop.call_soon_threadsafe(asked)
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
def _unread(stop: Stop, asked: Callable[[], None]) -> Iterator[None]:
    """Ask to stop when the reader of the output is gone, as after `2>&1 | head`.

    A flow run of a deployment continues: a worker that stops ends its flow runs itself.
    """
    loop, run = asyncio.get_running_loop(), _flow_run()

    def end() -> None:
        if run is None or run.deployment_id is None:
            stop.requested = True
            loop.call_soon_threadsafe(asked)

    with on_lost_reader(end):
        yield


@asynccontextmanager
async def _watched(stop: Stop, asked: Callable[[], None]) -> AsyncIterator[None]:
    """Ask to stop when the flow run is paused or ended, even before the block was entered."""
    run = _flow_run()
    if run is None:
        yield
        return
    async with get_client() as client:
        await _look(client, run.id, stop, asked)
        watching = asyncio.create_task(_watch(client, run.id, stop, asked))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})


async def _watch(client: PrefectClient, run: UUID, stop: Stop, asked: Callable[[], None]) -> None:
    while stop.by is None:
        await asyncio.sleep(timings().pause_poll_s)
        await _look(client, run, stop, asked)


async def _look(client: PrefectClient, run: UUID, stop: Stop, asked: Callable[[], None]) -> None:
    """Ask to stop if the flow run was paused or ended. Ignore an unreachable server."""
    with suppress(httpx.HTTPError, ObjectNotFound):
        found = await client.read_flow_run(run)
        state = found.state
        if state is None or not (
            state.is_paused()
            or state.is_cancelling()
            or state.is_cancelled()
            or _is_given_up(found, state)
        ):
            return
        if state.is_paused() and found.deployment_id is not None:
            await _suspend(client, found, state)
        stop.by, stop.requested = state, True
        say(
            f"{(state.name or state.type.value).lower()}: calls in flight are finished and recorded"
        )
        asked()


def _is_given_up(run: FlowRun, state: State[Any]) -> bool:
    """Return True if the flow run of a deployment was ended from outside, as if it were dead.

    Prefect would kill this process minutes later, when it renews its slot of the deployment's
    limit. Calls in flight would be lost.
    """
    return run.deployment_id is not None and state.is_final()


async def _suspend(client: PrefectClient, run: FlowRun, paused: State[Any]) -> None:
    """Have a paused flow run begun anew when it is resumed.

    By default, Prefect expects its process to wait and sets it to Running. This process ends.
    """
    details = paused.state_details
    if details is None or not details.pause_reschedule:
        until = details.pause_timeout if details else None
        suspended: State[Any] = Suspended(pause_expiration_time=until)
        await client.set_flow_run_state(run.id, suspended, force=True)


async def _end_as(state: State[Any]) -> None:
    """Leave the flow run in the requested state.

    Raises:
        Pause, Abort: the flow run was paused or ended. Not raised without a deployment, because
            the flow run could not be resumed; the command then says how to continue.
    """
    run = _flow_run()
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


def _abort(why: str, state: State[Any]) -> Abort:
    aborted = Abort(why)
    aborted.state = state  # type: ignore[attr-defined]  # the engine reads it
    return aborted


def _flow_run() -> FlowRun | None:
    """Return the flow run of the current code; None outside a flow run."""
    context = FlowRunContext.get()
    return context.flow_run if context is not None else None


def _suspension() -> State[Any] | None:
    """Return the state in which the flow run is suspended, if Prefect has noticed that."""
    context = FlowRunContext.get()
    return context.flow_run_suspension_request.get_state() if context is not None else None


def sign_off() -> None:
    """Announce that no more heartbeats follow; otherwise the flow run would be considered dead."""
    run = _flow_run()
    assert run is not None
    emit_event(
        PAUSED,
        resource={"prefect.resource.id": f"prefect.flow-run.{run.id}"},
        related=[
            {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"}
            for tag in run.tags
        ],
    )
