"""The client of one long-lived bash that runs one command after another.

`command_server.sh` is the server and describes the framing. Output is bounded while it streams:
however much a command writes, at most the requested bytes are held in memory, and a command that
writes faster than they are read has to wait.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Literal, NoReturn, Protocol

from agent.errors import WorkspaceError

START_S = 30.0
"""Time for the shell of a workspace to run its first command."""

GRACE_S = 10.0
"""Time for a command to end after its own timeout. After that, its shell is abandoned."""

Mode = Literal["login", "plain"]
"""`login` is `bash -lc` with the profile and the file that BASH_ENV names.

`plain` skips both. It is for our scripts, which leave no process behind.
"""

DEFAULT_OUTPUT_BYTES = 2 * 2**20
"""Bytes of a command's output that are kept by default: half head, half tail."""

_CHUNK_BYTES = 256 * 2**10
_LAST_WORDS_BYTES = 2000

_SCRIPTS = ("files.sh", "work_tree.sh", "probe.sh", "command_server.sh")


def server_command(root: str, mark: str, first: str = "") -> list[str]:
    """Return the arguments that start the server. `-p` keeps bash from reading BASH_ENV for it.

    The server has the functions for files and the work tree, so that it parses them only once. It
    runs `first` before anything else.
    """
    return ["bash", "-p", "-c", f"{first}\n{_server_script()}", "bash", root, mark]


@cache
def _server_script() -> str:
    return "\n".join(Path(__file__).with_name(name).read_text("utf-8") for name in _SCRIPTS)


class ByteReader(Protocol):
    async def read(self, limit: int) -> bytes:
        """Return at least one and at most `limit` bytes, or none at the end of the stream."""
        ...


class ByteWriter(Protocol):
    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...


@dataclass(frozen=True)
class FinishedCommand:
    """The end of one command and the kept parts of its output."""

    exit_code: int
    timed_out: bool
    head: bytes
    tail: bytes
    """Output after the head. Without a gap if `output_bytes` is the length of both."""
    output_bytes: int
    duration_s: float
    changed: bool
    """False if nothing in the server's folder changed since the given stamp."""

    @property
    def left_out(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.output_bytes - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """Head and tail as UTF-8 with replacement, with the number of missing bytes in between."""
        if not self.left_out:
            return (self.head + self.tail).decode(errors="replace")
        gap = f"\n[... {self.left_out} bytes left out ...]\n"
        return self.head.decode(errors="replace") + gap + self.tail.decode(errors="replace")


@dataclass(frozen=True)
class Pressure:
    """Processes that the kernel ended or refused at the limits of a container, since its start.

    Always 0 on a host.
    """

    killed: int = 0
    """Processes that were killed because the memory was used up."""
    refused: int = 0
    """Processes that did not start because there were too many."""


class ShellEnded(WorkspaceError):
    """The server of a shell was killed, or does not answer. The workspace can still live.

    `so_far` is the result of the command until then; None if it did not start.
    """

    def __init__(
        self, message: str, *, retryable: bool = True, so_far: FinishedCommand | None = None
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.so_far = so_far


class Output:
    """The first and the last bytes of a stream, and its total length."""

    def __init__(self, limit: int) -> None:
        self.head = bytearray()
        self._tail = bytearray()
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_room - len(self.head)
        self.head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_room:  # in strides: each byte moves once
            self._trim()

    @property
    def tail(self) -> bytes:
        self._trim()
        return bytes(self._tail)

    def finish(
        self, exit_code: int, duration_s: float, *, timed_out: bool, changed: bool = True
    ) -> FinishedCommand:
        """Return the end of the command that wrote this."""
        return FinishedCommand(
            exit_code=exit_code,
            timed_out=timed_out,
            head=bytes(self.head),
            tail=self.tail,
            output_bytes=self.total,
            duration_s=duration_s,
            changed=changed,
        )

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_room)]


class Shell:
    """Runs commands through one server, one at a time.

    After a `WorkspaceError` or a cancelled command, the state of the server is unknown. `gone` is
    the reason, and every later command fails with it. `has_ended` is True if another shell can take
    its place.
    """

    def __init__(self, reader: ByteReader, writer: ByteWriter, *, name: str) -> None:
        """`name` identifies the shell in error messages, such as `container 1f2e…`."""
        self.gone: str | None = None
        self.has_ended = False
        self.pressure = Pressure()
        """As of the last command that ended."""
        self._reader = reader
        self._writer = writer
        self._name = name
        self._pending = b""
        self._has_begun = False
        """True if the server has started the last command."""
        self._lock = asyncio.Lock()

    async def greet(self) -> None:
        """Wait until the server has run a first, empty command.

        Raises:
            WorkspaceError: the server does not respond, or has no tools to run commands with.
        """
        done = await self.run(":", timeout_s=START_S, mode="plain")
        if done.exit_code:
            raise WorkspaceError(
                f"{self._name} cannot run commands: {done.text.strip()}", retryable=False
            )

    async def run(
        self,
        command: str,
        *,
        timeout_s: float,
        mode: Mode = "login",
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        stdin: str = "",
        stamp: str = "",
    ) -> FinishedCommand:
        """Run `command` with `stdin`, and end every process that it leaves in its group.

        After a login command, also end the processes that left the group. With a `stamp`, in
        seconds of the server's clock, then check for changes in the server's folder, except `.git`,
        since that time. Without one, the folder counts as changed.

        Raises:
            ShellEnded: the server does not respond in time, or has ended.
            WorkspaceError: an earlier command was cancelled.
        """
        token = secrets.token_hex(16)
        body, data = command.encode(errors="surrogateescape"), stdin.encode()
        header = f"{token} {timeout_s:.3f} {mode} {len(body)} {len(data)} {stamp}\n"
        grace_s = GRACE_S
        async with self._lock:
            if self.gone:
                raise ShellEnded(self.gone) if self.has_ended else WorkspaceError(self.gone)
            start, output = monotonic(), Output(keep_bytes)
            try:
                async with asyncio.timeout(timeout_s + grace_s):
                    return await self._exchange(
                        header.encode() + body + data, token.encode(), output
                    )
            except TimeoutError:
                output.add(self._pending)
                what = f"did not end a command {grace_s:.0f} s after its timeout"
                self._give_up(what, output, 124, monotonic() - start)
            except (EOFError, OSError) as error:
                self._give_up(f"ended: {error}", output, 137, monotonic() - start)
            except asyncio.CancelledError:
                self.gone = f"the shell in {self._name} was closed when a command was cancelled"
                raise

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Let no command run during the block. The block itself must run none."""
        async with self._lock:
            yield

    async def _exchange(self, request: bytes, token: bytes, output: Output) -> FinishedCommand:
        start, self._has_begun = monotonic(), False
        with suppress(ConnectionError):  # a server that ended gave a reason, read below
            self._writer.write(request)
            await self._writer.drain()
        # Skip what a killed process was still writing when its command was over.
        await self._until(token + b" begin\n", Output(_LAST_WORDS_BYTES))
        self._has_begun = True
        await self._until(b"\n" + token + b" end ", output)
        ending = Output(_LAST_WORDS_BYTES)
        await self._until(b"\n", ending)
        exit_code, timed_out, changed, killed, refused = map(int, ending.head.split())
        self.pressure = Pressure(killed, refused)
        return output.finish(
            exit_code, monotonic() - start, timed_out=bool(timed_out), changed=bool(changed)
        )

    async def _until(self, mark: bytes, sink: Output) -> None:
        """Move everything before `mark` into `sink`, and drop the mark."""
        while (at := self._pending.find(mark)) < 0:
            safe = max(0, len(self._pending) - len(mark) + 1)
            sink.add(self._pending[:safe])
            self._pending = self._pending[safe:]
            chunk = await self._reader.read(_CHUNK_BYTES)
            if not chunk:
                sink.add(self._pending)
                end = (sink.head + sink.tail)[-_LAST_WORDS_BYTES:].decode(errors="replace").strip()
                raise EOFError(f"its last words were {end!r}" if end else "it wrote nothing more")
            self._pending += chunk
        sink.add(self._pending[:at])
        self._pending = self._pending[at + len(mark) :]

    def _give_up(self, what: str, output: Output, exit_code: int, duration_s: float) -> NoReturn:
        """Raise the error of a server that gave no result. The exit code 124 is for a timeout."""
        self.has_ended = True
        self.gone = (
            f"the shell in {self._name} {what}. It may have been killed or run out of memory "
            "or disk; run this attempt again, with higher limits if it happens twice"
        )
        done = output.finish(exit_code, duration_s, timed_out=exit_code == 124)
        raise ShellEnded(self.gone, so_far=done if self._has_begun else None) from None
