"""Run a part of a flow run in a process below it, which outlives it.

A Prefect worker that is stopped kills its flow runs. The process below then still finishes the
calls in flight.
"""

import asyncio
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.context import AsyncClientContext, hydrated_context, serialize_context

from agent.errors import InfrastructureError
from agent.timings import STOP_CHECK_S, timings
from flows.display.terminal import discard, on_lost_reader
from flows.experiments.stop import Stop
from flows.server.api import settle
from flows.server.retry import patiently
from flows.server.stopping import cut_off

T = TypeVar("T")

EARLIER = 0.8
"""Share of the grace period after which a process cuts off its work, before it is killed itself."""


class ProcessDied(InfrastructureError):
    """The process ended without a result, for example because the machine had no memory left."""


async def run_below(do: Callable[..., Coroutine[Any, Any, T]], *arguments: object, stop: Stop) -> T:
    """Return the result of `do(*arguments, stop=…)` in a new process.

    Function, arguments and result are pickled. A stop request reaches the process, and so does the
    death of this one, as a stop request. If the caller is cancelled, the process is killed.

    Raises:
        ProcessDied: the process ended without a result.
    """
    context = serialize_context()
    # The flow function is not in an importable module.
    context["flow_run_context"].update(flow=None, parameters={})
    connection, remote = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_main, args=(remote, context, do, arguments)
    )
    process.start()
    remote.close()
    try:
        await _wait_until_readable(connection, stop)
        result, error = connection.recv()
    except (EOFError, ConnectionError):
        await asyncio.to_thread(process.join)
        raise ProcessDied(
            f"its process died with exit code {process.exitcode}", retryable=False
        ) from None
    except BaseException:
        process.kill()
        raise
    finally:
        connection.close()
    await asyncio.to_thread(process.join)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]  # the other end sends a T


async def _wait_until_readable(connection: Connection, stop: Stop) -> None:
    """Wait for the result or the end of the process. Pass on a stop request."""
    loop, readable, is_passed_on = asyncio.get_running_loop(), asyncio.Event(), False
    loop.add_reader(connection.fileno(), readable.set)
    try:
        while not readable.is_set():
            if stop.requested and not is_passed_on:
                connection.send("stop")
                is_passed_on = True
            with suppress(TimeoutError):
                await asyncio.wait_for(readable.wait(), STOP_CHECK_S)
    finally:
        loop.remove_reader(connection.fileno())


def _main(
    connection: Connection,
    context: dict[str, Any],
    do: Callable[..., Coroutine[Any, Any, object]],
    arguments: tuple[object, ...],
) -> None:
    """Run the function, and send its result."""
    # The parent also receives them, and decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settle()
    context["flow_run_context"]["flow"] = _stand_in
    result: object = None
    failure: Exception | None = None
    try:
        with hydrated_context(context), on_lost_reader():
            result = asyncio.run(_run_with_stop(connection, do, arguments))
    except Exception as error:
        failure = error
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - it was pickled here
        except Exception:
            failure = RuntimeError(f"{type(error).__name__}: {error}")
    with suppress(BrokenPipeError):  # the parent is dead
        connection.send((result, failure))


@flow
async def _stand_in() -> None:
    """Stands for the flow function of the parent process. It is never called."""


async def _run_with_stop(
    connection: Connection,
    do: Callable[..., Coroutine[Any, Any, T]],
    arguments: tuple[object, ...],
) -> T:
    """Run the function until the parent asks to stop or dies, and for a while longer.

    Raises:
        Interrupted: the function was cut off.
    """
    stop, loop = Stop(), asyncio.get_running_loop()
    async with cut_off(EARLIER * timings().stop_grace_s) as start_countdown:

        def receive() -> None:
            try:
                connection.recv()
            except (EOFError, ConnectionError):
                stop.is_orphaned = True
                loop.remove_reader(connection.fileno())
                discard(sys.stdout, sys.stderr)  # they belonged to the parent
            if not stop.requested:
                stop.requested = True
                start_countdown()

        loop.add_reader(connection.fileno(), receive)
        try:
            async with get_client() as client:
                await patiently(client.api_version)  # the context below fails without an answer
            # All task runs of this process share a client: a new one takes 20 ms of processor time.
            async with AsyncClientContext.get_or_create():
                return await do(*arguments, stop=stop)
        finally:
            loop.remove_reader(connection.fileno())
