"""Stopping a run without losing what is being paid for.

The first Ctrl-C or SIGTERM, or a pause on a Prefect server, lets the calls and commands in
flight finish and be recorded; nothing new is begun. What is still running after `GRACE_S` is
cut off, and so is everything at the second signal.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import Pause
from prefect.states import State

from agent.errors import Interrupted
from flows.progress import say

GRACE_S = 25.0

RESUME = "run the same command again to go on from there"

WATCH_S = 10.0
"""How often a flow run looks whether it was paused."""

PAUSED = "durabench.flow-run.paused"
"""The last event of a flow run that was paused."""


@dataclass
class Stop:
    """Whether the operator asked the run to stop."""

    requested: bool = False
    paused: State | None = None
    """The state that the flow run was put into, if somebody paused it."""

    def check(self) -> None:
        """Return if the run may go on.

        Raises:
            Interrupted: it may not; what is recorded is kept.
        """
        if self.requested:
            raise Interrupted(f"stopped; {RESUME}")


current: ContextVar[Stop] = ContextVar("stop")
"""The stop of the run that this code belongs to."""


def check() -> None:
    """As `Stop.check`, for code of a run that may have none."""
    stop = current.get(None)
    if stop is not None:
        stop.check()


def is_requested() -> bool:
    """Whether the operator asked to stop the run that this code belongs to, if any."""
    stop = current.get(None)
    return stop is not None and stop.requested


@asynccontextmanager
async def graceful_stop() -> AsyncIterator[Stop]:
    """Heed both signals and, on a Prefect server, a pause for the length of a flow.

    Raises:
        Interrupted: the flow went on for `GRACE_S` after it was asked to stop.
        Pause: the flow run was paused, and has stopped; resumed, it is run from the top again.
    """
    stop = Stop()
    token = current.set(stop)
    try:
        async with _grace(stop) as asked:
            watching = asyncio.create_task(_watch(stop, asked))
            try:
                with _signals(asked):
                    yield stop
            finally:
                watching.cancel()
    except Interrupted:
        if stop.paused is None:
            raise
        _sign_off()
        raise Pause(state=stop.paused) from None
    finally:
        current.reset(token)


@asynccontextmanager
async def _grace(stop: Stop) -> AsyncIterator[Callable[[], None]]:
    """What asks to stop; the block is cut off that goes on for too long after that.

    A flow that ends with the cancellation itself would count as crashed.
    """
    try:
        async with asyncio.timeout(None) as limit:

            def asked() -> None:
                stop.requested = True
                limit.reschedule(asyncio.get_running_loop().time() + GRACE_S)

            yield asked
    except TimeoutError:
        if not limit.expired():
            raise
        raise Interrupted(f"cut off after {GRACE_S:.0f} s; {RESUME}") from None


@contextmanager
def _signals(asked: Callable[[], None]) -> Iterator[None]:
    """Take over both signals; the second of them finds the handlers that were there before."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in signals}

    def handle(number: int, frame: FrameType | None) -> None:
        for each, handler in previous.items():
            signal.signal(each, handler)
        loop.call_soon_threadsafe(asked)
        say("stopping: calls in flight are finished and recorded; once more stops at once")

    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


async def _watch(stop: Stop, asked: Callable[[], None]) -> None:
    """Ask to stop when the flow run is paused. Only that of a deployment can be resumed."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow_run.deployment_id is None:
        return
    async with get_client() as client:
        while stop.paused is None:
            await asyncio.sleep(WATCH_S)
            with suppress(httpx.HTTPError):  # the server may be away for a while
                run = await client.read_flow_run(context.flow_run.id)
                stop.paused = run.state if run.state and run.state.is_paused() else None
    say("paused: calls in flight are finished and recorded")
    asked()


def _sign_off() -> None:
    """Say that no heartbeat is to come, or the flow run would be taken for dead."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    emit_event(
        PAUSED,
        resource={"prefect.resource.id": f"prefect.flow-run.{context.flow_run.id}"},
        related=[
            {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"}
            for tag in context.flow_run.tags
        ],
    )
