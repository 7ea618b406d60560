"""A program on a terminal of its own, as a person uses it."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import wait_until

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"

_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)|\r")


class Terminal:
    """A program that runs on a terminal during the block. It is killed at its end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self._command, self._cwd = command, cwd
        self._environment = {
            **environment,
            "TERM": "xterm",
            # Without an answer of a real terminal, the prompt would wait for its position.
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "PYTHONFAULTHANDLER": "1",  # for the report of a test that fails
        }
        self._read = b""

    def __enter__(self) -> Self:
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(
            self._command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environment,
            cwd=self._cwd,
            start_new_session=True,
            preexec_fn=_control,
        )
        os.close(theirs)
        self._is_open = True
        self._reading = threading.Thread(target=self._collect, daemon=True)
        self._reading.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self.close()

    @property
    def raw(self) -> str:
        """Everything printed so far."""
        return self._read.decode(errors="replace")

    @property
    def shown(self) -> str:
        """Everything printed so far, without control sequences."""
        return _CONTROL.sub("", self.raw)

    def type(self, text: str) -> None:
        """Type characters."""
        os.write(self._own, text.encode())

    def until(self, text: str, times: int = 1, seconds: float = 120) -> None:
        """Wait until a text was printed so many times."""
        try:
            wait_until(lambda: self.shown.count(text) >= times, seconds=seconds)
        except AssertionError:
            code = self.process.poll()
            state = "it runs" if code is None else f"it ended with {code}"
            self._show_stacks()
            raise AssertionError(f"no {text!r}, {state}:\n{self.shown[-6000:]}") from None

    def ended(self, seconds: float = 60) -> int:
        """Wait for the end of the program. Return its exit code."""
        return self.process.wait(timeout=seconds)

    def close(self) -> None:
        """Close the terminal like a window. The system sends the program a SIGHUP."""
        if self._is_open:
            self._is_open = False
            self._reading.join()  # a terminal that is being read does not close
            os.close(self._own)

    def kill(self) -> None:
        """Kill the program and what it started in its process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _show_stacks(self) -> None:
        """Let the program print what its threads do, and end."""
        self.process.send_signal(signal.SIGABRT)
        with suppress(AssertionError):
            wait_until(lambda: "(most recent call first)" in self.shown, seconds=10)

    def _collect(self) -> None:
        while self._is_open:
            if not select.select([self._own], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(self._own, 65_536)
            except OSError:  # the program has ended
                return
            if not part:
                return
            self._read += part


def _control() -> None:
    """Make the terminal that of the new session, so that Ctrl-C and its end reach the program."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
