"""Programs that Docker runs in a container: their streams and exit codes."""

import asyncio
import os
import socket
from time import sleep
from typing import Any

from agent.errors import WorkspaceError
from agent.workspaces import apart
from agent.workspaces.docker_daemon import client
from agent.workspaces.frames import Frames
from agent.workspaces.shell import Output

_KILLED = 137


class ContainerProgram:
    """A program in a container, beside the command server."""

    def __init__(self, exec_id: str, reader: Frames, writer: asyncio.StreamWriter) -> None:
        self._exec_id = exec_id
        self._reader = reader
        self._writer = writer

    async def talk(self, given: bytes, output: Output) -> int:
        """Send the program its input, and add what it prints to `output`. Return its exit code."""
        await apart.exchange(self._reader, self._writer, given, output)
        exit_code = await asyncio.to_thread(exit_code_of, self._exec_id)
        return _KILLED if exit_code is None else exit_code

    def close(self) -> None:
        """End the connection. The program may go on."""
        self._writer.close()


def exit_code_of(exec_id: str) -> int | None:
    """Return the exit code of a program whose stream ended; None if Docker knows none; blocking."""
    state = client().api.exec_inspect(exec_id)
    for _ in range(20):  # the stream can end a moment before Docker records the exit code
        if state["ExitCode"] is not None:
            break
        sleep(0.05)
        state = client().api.exec_inspect(exec_id)
    exit_code: int | None = state["ExitCode"]
    return exit_code


def socket_of(stream: Any) -> socket.socket:
    """Return the socket of a started exec.

    Raises:
        WorkspaceError: the connection has none.
    """
    if not isinstance(stream, socket.SocketIO):
        raise WorkspaceError(
            "the Docker connection has no plain socket for commands (TLS and ssh:// have "
            "none); use a unix socket or tcp:// without TLS in DOCKER_HOST",
            retryable=False,
        )
    # A duplicate, so that the HTTP response that owns the original can be closed.
    found = socket.socket(fileno=os.dup(stream.fileno()))
    stream._response.close()  # type: ignore[attr-defined]  # set by the Docker client
    found.setblocking(False)
    return found
