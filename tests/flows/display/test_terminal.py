"""Progress on a terminal that disappears."""

import os
import pty

import pytest
from rich.console import Console

from flows.display import terminal


def test_work_goes_on_without_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may outlive its terminal without a signal. Its lines still have listeners."""
    own, theirs = pty.openpty()
    os.close(own)
    heard: list[str] = []
    with os.fdopen(theirs, "w") as gone:
        monkeypatch.setattr(terminal, "error_console", Console(file=gone))
        monkeypatch.setattr(terminal, "_listeners", [heard.append])
        terminal.say("the first")
        terminal.say("the second")
    assert heard == ["the first", "the second"]
