"""The terminal of a chat: lines that a person types, and the conversation."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from io import UnsupportedOperation
from typing import Protocol, TextIO, cast

from agent.journal import InboxMessage
from flows.display.terminal import fit, out, show
from flows.jobs.mailbox import Mailbox, Seen, list_remarks
from flows.storage.lake import Lake
from reports.values import in_line

_STYLES = {"person": "bold cyan", "agent": "bold green", "tool": "dim"}
_PART = 65_536
_BETWEEN_WRITES_S = 0.02
"""Time between two texts above the line. prompt_toolkit's own 0.2 s make a generated text jump."""


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

    def printing_above(self) -> AbstractAsyncContextManager[None]:
        """Show what is printed in the block above the line that is being typed.

        Stop reading lines before the block ends. Everything printed is on the terminal after it.
        """
        ...


class _Piped:
    """Standard input that is not a terminal. Bytes that were read ahead are for the next line."""

    is_terminal = False

    def __init__(self) -> None:
        self._rest = b""

    async def line(self) -> str | None:
        while b"\n" not in self._rest:
            part = await _read()
            if not part:
                last, self._rest = self._rest, b""
                return last.decode(errors="replace") or None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def printing_above(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


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

    @asynccontextmanager
    async def printing_above(self) -> AsyncIterator[None]:
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.patch_stdout import StdoutProxy

        proxy = StdoutProxy(sleep_between_writes=_BETWEEN_WRITES_S, raw=True)
        try:
            with (
                proxy,
                redirect_stdout(cast("TextIO", proxy)),
                redirect_stderr(cast("TextIO", proxy)),
            ):
                yield
        finally:
            # prompt_toolkit prints in a thread, which passes texts to this event loop while a line
            # is being read. The last one may still be a callback that starts a task. The task that
            # starts here runs after it.
            await asyncio.sleep(0)
            await run_in_terminal(lambda: None)


def prompt() -> Prompt:
    """Return the prompt of this process."""
    return _Terminal() if sys.stdin.isatty() and sys.stdout.isatty() else _Piped()


def has_answered(seen: Seen, sent: InboxMessage) -> bool:
    """Return True if an attempt has read a message, and now waits again or has ended."""
    if seen.standing == "ended":
        return True
    return seen.standing == "waiting" and seen.wait is not None and seen.wait.after >= sent.n


def show_standing(seen: Seen) -> None:
    """Print the answer or question of an attempt that waits, or how it ended."""
    if seen.standing == "ended":
        show(f"[ended] {seen.ending}", "bold")
    elif seen.wait is not None:
        show(seen.wait.about)
        if seen.is_asking:
            show("[approval] it waits for approve, revise or reject", "yellow")


def show_history(lake: Lake, attempt: str, *, everything: bool) -> None:
    """Print the conversation of an attempt, and an approval that it waits for.

    Raises:
        UsageError: there are several attempts, or its steps were pruned.
    """
    mailbox = Mailbox.of(lake, attempt)
    steps = mailbox.journal.steps(mailbox.attempt_id)
    for remark in list_remarks(steps, mailbox.list_messages()):
        clock = f"{remark.at.astimezone():%H:%M:%S} " if remark.at else ""
        style = _STYLES[remark.speaker]
        if remark.speaker != "tool":
            unread = " (not read yet)" if remark.is_unread else ""
            show(f"{clock}{remark.name}{unread}:", style)
            show(remark.text)
        elif everything:
            show(fit(f"{clock}{remark.name}: {in_line(remark.text)}", out().width), style)
    state = mailbox.get_state()
    if state.is_asking:
        show_standing(state)
    show(f"[{state.standing}] {state.ending}".rstrip(), "bold")
