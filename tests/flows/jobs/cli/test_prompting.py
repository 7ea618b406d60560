"""Text that is printed above the line that a person types."""

import asyncio
import io
import time
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import StdoutProxy

from flows.jobs.cli import terminal
from tests.waiting import until


class _Stdin(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_last_text_is_shown_even_if_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that prints passes it to the event loop, which ends at that moment."""
    original = StdoutProxy._write_and_flush

    def late(self: StdoutProxy, loop: Any, text: str) -> None:
        assert loop is not None, "a line is read"
        time.sleep(0.3)
        original(self, loop, text)

    async def talk() -> None:
        prompt = terminal.prompt()
        async with prompt.printing_above():
            reading = asyncio.create_task(prompt.line())
            await until(lambda: session.app is not None and session.app.is_running)
            print("[ended] submitted", flush=True)
            await asyncio.sleep(0.1)
            reading.cancel()
            await asyncio.wait([reading])

    monkeypatch.setattr(StdoutProxy, "_write_and_flush", late)
    monkeypatch.setattr("sys.stdin", _Stdin())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = io.StringIO()
    output = Vt100_Output(shown, lambda: Size(24, 80))
    with create_pipe_input() as typed, create_app_session(typed, output) as session:
        asyncio.run(talk())
    assert "[ended] submitted" in shown.getvalue()
