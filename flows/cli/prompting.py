"""Lines that a person types, while steps are printed above them."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from typing import Protocol

_PART = 65_536


class Prompt(Protocol):
    """The source of the lines of a chat."""

    is_terminal: bool
    """False for a pipe or a file, whose next line is read when the agent has answered."""

    async def line(self) -> str | None:
        """Return the next line, or None at the end of the input.

        Raises:
            KeyboardInterrupt: Ctrl-C was typed.
        """
        ...


class _Piped:
    """Standard input that is no terminal. What was read ahead is kept for the next line."""

    is_terminal = False

    def __init__(self) -> None:
        self._rest = b""

    async def line(self) -> str | None:
        while b"\n" not in self._rest:
            read = await _read()
            if not read:
                last, self._rest = self._rest, b""
                return last.decode(errors="replace") or None
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")


async def _read() -> bytes:
    """Return the next part of standard input; nothing at its end."""
    try:
        number = sys.stdin.fileno()
    except UnsupportedOperation:  # it is in memory
        return sys.stdin.read().encode()
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(number, readable.set)
    except PermissionError:  # it is a file, which is never awaited
        return os.read(number, _PART)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(number)
    return os.read(number, _PART)


class _Terminal:
    """A terminal, with editing and a history of lines."""

    is_terminal = True

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession

        self._session: PromptSession[str] = PromptSession()

    async def line(self) -> str | None:
        try:
            return await self._session.prompt_async("> ", handle_sigint=False)
        except EOFError:
            return None


@contextmanager
def prompt() -> Iterator[Prompt]:
    """Yield the prompt of this process. What is printed in the block appears above it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _Piped()
        return
    from prompt_toolkit.patch_stdout import patch_stdout

    with patch_stdout(raw=True):
        yield _Terminal()
