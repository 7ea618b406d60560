"""The console of the commands: as wide as the terminal, or unbounded without one."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.cells import cell_len, set_cell_size
from rich.console import Console

UNBOUNDED = 100_000
"""Width of a file or a pipe, so that nothing is cut or wrapped."""


error_console = Console(stderr=True, highlight=False)
"""Standard error, used for progress, so that the output of a command can be piped."""


_listeners: list[Callable[[str], None]] = []


def say(line: str) -> None:
    """Print one line about the progress of long work, and pass it to the listeners."""
    try:
        error_console.print(line, markup=False, soft_wrap=True)
    except OSError:  # the terminal is gone, or the disk of the log is full
        discard(error_console.file)
    for hear in _listeners:
        hear(line)


_once: set[str] = set()


def say_once(line: str) -> None:
    """Print a line as `say` does, unless the current command has."""
    if line not in _once:
        _once.add(line)
        say(line)


def begin() -> None:
    """Begin a command: every line is new."""
    _once.clear()


def listen(hear: Callable[[str], None]) -> None:
    """Pass each line of `say` to a function from now on."""
    _listeners.append(hear)


@contextmanager
def on_lost_reader(do: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call `do` when nothing reads a console's output any more, and discard its further output.

    This applies to every console of rich, those of Prefect's loggers included. By default, rich
    ends the process, and model calls in flight are lost.
    """

    def lose(console: Console) -> None:
        discard(console.file)
        do()

    default = Console.on_broken_pipe
    Console.on_broken_pipe = lose  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        Console.on_broken_pipe = default  # type: ignore[method-assign]


def discard(*outputs: IO[str]) -> None:
    """Discard what is printed to files from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in outputs:
        os.dup2(nowhere, output.fileno())
    os.close(nowhere)


def out() -> Console:
    """Return the console of standard output."""
    console = Console(highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = Console(highlight=False, width=UNBOUNDED)
    return console


def show(text: str, style: str | None = None) -> None:
    """Print one line of a command's output, however long."""
    out().print(text, style=style, markup=False, soft_wrap=True)


def fitted(text: str, width: int) -> str:
    """Return a text of at most `width` columns, with an ellipsis if it was cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns. The columns in `right` are right-aligned."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            " " * (width - cell_len(text)) + text
            if index in right
            else text + " " * (width - cell_len(text))
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
