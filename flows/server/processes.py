"""Run a part of a flow run in a process of its own, so that its death does not end the others.

Such a process is a fork of a server that has imported everything, so it begins within a second. If
it needs processes itself, they are forks of the same server.
"""

import asyncio
import functools
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.context import AsyncClientContext, hydrated_context, serialize_context

from agent.errors import InfrastructureError, Interrupted
from agent.timings import STOP_CHECK_S, timings
from flows.display.errors import UsageError
from flows.display.terminal import discard, on_lost_reader
from flows.experiments.stop import RESUME, Stop
from flows.server import fork_server
from flows.server.retry import patiently

T = TypeVar("T")

EARLIER = 0.8
"""Share of the grace period after which a process cuts off its work, before it is killed itself."""

SOCKET_FOLDER_BYTES = 70
"""Longest path of a folder whose sockets the system takes.

multiprocessing appends 32 bytes. Linux allows 107 bytes and macOS 103.
"""


class ProcessDied(InfrastructureError):
    """The process ended without a result, for example because the machine had no memory left."""


async def in_process(
    do: Callable[..., Coroutine[Any, Any, T]],
    *arguments: object,
    stop: Stop,
    with_litellm: bool = False,
) -> T:
    """Return the result of `do(*arguments, stop=…)` in a process of its own.

    Function, arguments and result are pickled. A stop request reaches the process, and so does the
    death of this one, as a stop request. If the caller is cancelled, the process is killed.
    With `with_litellm`, LiteLLM is imported once for all such processes.

    Raises:
        ProcessDied: the process ended without a result.
        UsageError: the path of the folder for temporary files is too long.
    """
    here, there = multiprocessing.Pipe()
    context = _serialized_context()
    server = _server(do.__module__, with_litellm=with_litellm)
    process = server.Process(
        target=_main, args=(there, fork_server.running(), dict(os.environ), context, do, arguments)
    )
    process.start()
    there.close()
    try:
        await _until_readable(here, stop)
        result, error = here.recv()
    except (EOFError, ConnectionError):
        await asyncio.to_thread(process.join)
        raise ProcessDied(
            f"its process died with exit code {process.exitcode}", retryable=False
        ) from None
    except BaseException:
        process.kill()
        raise
    finally:
        here.close()
    await asyncio.to_thread(process.join)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]  # the other end sends a T


def begin_server(do: Callable[..., Coroutine[Any, Any, T]], *, with_litellm: bool) -> None:
    """Start the server for `in_process` of this function ahead, unless it runs.

    Its imports take seconds of processor time, and a process begins after them.

    Raises:
        UsageError: the path of the folder for temporary files is too long.
    """
    _server(do.__module__, with_litellm=with_litellm)
    fork_server.running()


@functools.cache
def _server(module: str, *, with_litellm: bool) -> ForkServerContext:
    """Return a context whose server has imported a module. The first fork starts it.

    Raises:
        UsageError: the path of the folder for temporary files is too long.
    """
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > SOCKET_FOLDER_BYTES:
        raise UsageError(
            f"paths of sockets in {folder} would be too long: set TMPDIR to a path of at most "
            f"{SOCKET_FOLDER_BYTES} bytes"
        )
    context = multiprocessing.get_context("forkserver")
    modules = [module, *(["flows.server.with_litellm"] * with_litellm)]
    context.set_forkserver_preload([*modules, "flows.server.settled"])
    return context


async def _until_readable(connection: Connection, stop: Stop) -> None:
    """Wait for the result or the end of the process. Pass on a stop request."""
    loop, readable, is_told = asyncio.get_running_loop(), asyncio.Event(), False
    loop.add_reader(connection.fileno(), readable.set)
    try:
        while not readable.is_set():
            if stop.requested and not is_told:
                connection.send("stop")
                is_told = True
            try:
                await asyncio.wait_for(readable.wait(), STOP_CHECK_S)
            except TimeoutError:
                continue
    finally:
        loop.remove_reader(connection.fileno())


def _serialized_context() -> dict[str, Any]:
    """Return Prefect's context without the flow function, which is not in an importable module."""
    context = serialize_context()
    context["flow_run_context"].update(flow=None, parameters={})
    return context


def _main(
    connection: Connection,
    server: str,
    environment: dict[str, str],
    context: dict[str, Any],
    do: Callable[..., Coroutine[Any, Any, object]],
    arguments: tuple[object, ...],
) -> None:
    """Run the function in the environment of the parent, and send its result."""
    fork_server.use(server)
    os.environ.clear()  # it is that of the server, from when the server was started
    os.environ.update(environment)
    # The parent gets them too, and decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    context["flow_run_context"]["flow"] = _stand_in
    result: object = None
    failure: Exception | None = None
    try:
        with hydrated_context(context), on_lost_reader():
            result = asyncio.run(_with_stop(connection, do, arguments))
    except Exception as error:
        failure = _sendable(error)
    with suppress(BrokenPipeError):  # the parent is dead
        connection.send((result, failure))


def _sendable(error: Exception) -> Exception:
    """Return the error, or its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - it was pickled here
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@flow
async def _stand_in() -> None:
    """Stands for the flow function of the parent process. It is never called."""


async def _with_stop(
    connection: Connection,
    do: Callable[..., Coroutine[Any, Any, T]],
    arguments: tuple[object, ...],
) -> T:
    """Run the function until the parent asks to stop or dies, and for a while longer.

    Raises:
        Interrupted: the function was cut off.
    """
    stop, loop = Stop(), asyncio.get_running_loop()
    grace_s = EARLIER * timings().stop_grace_s
    try:
        async with asyncio.timeout(None) as limit:

            def ask() -> None:
                try:
                    connection.recv()
                except (EOFError, ConnectionError):
                    stop.is_orphaned = True
                    loop.remove_reader(connection.fileno())
                    discard(sys.stdout, sys.stderr)  # they were the parent's
                if not stop.requested:
                    stop.requested = True
                    limit.reschedule(loop.time() + grace_s)

            loop.add_reader(connection.fileno(), ask)
            async with _one_client():
                return await do(*arguments, stop=stop)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Interrupted(f"cut off after {grace_s:.0f} s; {RESUME}") from None
    finally:
        loop.remove_reader(connection.fileno())


@asynccontextmanager
async def _one_client() -> AsyncIterator[None]:
    """Let all task runs of this process share a client of the Prefect server.

    Otherwise, each of them makes its own, for 20 ms of processor time.
    """
    async with get_client() as client:
        await patiently(client.api_version)  # the context below fails while no server answers
    async with AsyncClientContext.get_or_create():
        yield
