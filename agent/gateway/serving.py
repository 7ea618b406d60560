"""One small server per attempt."""

import asyncio
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from agent.errors import WorkspaceError

SOCKET = "gateway.sock"
_BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """The address of the gateway, for a program."""

    socket: Path | None
    port: int


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Yield a folder for a socket. Its users also need the token of the gateway."""
    # The path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="durabench-gw-"))
    folder.chmod(0o711)  # programs in a container may run as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def token() -> str:
    """Return a new token, without which nothing on this machine can use a gateway."""
    return secrets.token_urlsafe(24)


@asynccontextmanager
async def served(app: Starlette, folder: Path | None) -> AsyncIterator[Address]:
    """Serve an app on a socket in a folder, or on loopback without one, within the block.

    Raises:
        WorkspaceError: the socket cannot be created.
    """
    listener = _listener(folder)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=600,  # a client in a long command keeps its connection
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        port = 0 if folder else int(listener.getsockname()[1])
        yield Address(folder / SOCKET if folder else None, port)
    finally:
        server.should_exit = True
        await serving
        listener.close()


def _listener(folder: Path | None) -> socket.socket:
    if folder is None:
        return socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise WorkspaceError(f"no socket {path}: {error}; set a shorter TMPDIR") from error
    path.chmod(0o666)
    listener.listen(_BACKLOG)
    return listener
