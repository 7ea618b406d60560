"""What reaches a terminal, and progress on one that disappears."""

import logging
import os
import pty
import sys
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

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


HOSTILE = "\x1b[31mred\x07\x9b2J\u202e:bomb:"
SHOWN = r"\x1b[31mred\x07\x9b2J\u202e:bomb:"


def in_a_table(text: str) -> None:
    table = Table("title")
    table.add_row(text.replace("[", "\\["))
    terminal.out().print(table)


def in_a_tree(text: str) -> None:
    tree = Tree("title")
    tree.add(Text(terminal.fit(text, 100)))
    terminal.out().print(tree)


def in_a_record(text: str) -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 1, "%s", (text,), None)
    terminal.RecordHandler().emit(record)


def in_a_traceback(text: str) -> None:
    terminal.show_bug(ValueError, ValueError(text), None)


@pytest.mark.parametrize(
    "print_",
    [
        *(terminal.show, terminal.say, terminal.warn, terminal.write),
        *(in_a_table, in_a_tree, in_a_record, in_a_traceback),
    ],
)
def test_every_way_to_print_shows_controls(
    print_: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """They are aligned as they are shown, and the styles of a command are its own."""
    print_(HOSTILE)
    printed = "".join(capfd.readouterr())
    assert SHOWN in printed
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)
    lines = [line for line in printed.splitlines() if line.startswith(("┃", "│"))]
    assert len({len(line) for line in lines}) <= 1


def test_a_patch_goes_to_a_pipe_as_it_is(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Whatever reads it gets every byte."""
    patch = b"+\x1b[31m\r\n+\xff\x00\n"
    terminal.write_data(patch)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == patch
