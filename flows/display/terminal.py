"""The console of the commands: as wide as the terminal, or unbounded without one.

Everything that a command prints goes through this module, which shows the control characters in
texts of models, programs and repositories instead of passing them to the terminal. The linter
refuses other ways to print.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from reports.quoting import make_visible

UNBOUNDED = 100_000
"""Width of a file or a pipe, so that nothing is cut or wrapped."""


class VisibleConsole(Console):
    """A console that passes its own control sequences to the terminal, and none of a text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Before rich measures the text, and drops some control characters.
        return super().render_str(make_visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=make_visible(part.text))


error_console: Console = VisibleConsole(stderr=True)
"""Standard error, used for progress, so that the output of a command can be piped."""


_listeners: list[Callable[[str], None]] = []


def say(line: str) -> None:
    """Print one line about the progress of long work, and pass it to the listeners."""
    try:
        warn(line)
    except OSError:  # the terminal is gone, or the disk of the log is full
        discard(error_console.file)
    for hear in _listeners:
        hear(make_visible(line))


def warn(line: str) -> None:
    """Print one line on standard error."""
    error_console.print(line, markup=False, soft_wrap=True)


class RecordHandler(logging.Handler):
    """Prints the records of loggers without a handler, for `logging.lastResort`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record on standard error, with the traceback of its error."""
        try:
            warn(self.format(record))
        except Exception:
            self.handleError(record)


def show_bug(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    """Print the traceback of an error that nothing handles, for `sys.excepthook`."""
    warn("".join(traceback.format_exception(kind, error, place)).rstrip("\n"))


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

    This applies to every console of rich, also in Prefect's loggers. By default, rich ends the
    process, and model calls in flight are lost.
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
    console = VisibleConsole()
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = VisibleConsole(width=UNBOUNDED)
    return console


def show(text: str, style: str | None = None) -> None:
    """Print one line of a command's output, however long."""
    out().print(text, style=style, markup=False, soft_wrap=True)


def show_paragraph(text: str, style: str | None = None) -> None:
    """Print a sentence or more. A terminal gets lines that end between words."""
    console = out()
    console.print(text, style=style, markup=False, soft_wrap=not console.is_terminal)


def write(text: str) -> None:
    """Print a text, or a part of one, without wrapping it or ending its line."""
    sys.stdout.write(make_visible(text))
    sys.stdout.flush()


def write_data(data: bytes) -> None:
    """Write data for a program, such as a patch: every byte, except to a terminal."""
    if sys.stdout.isatty():
        write(data.decode(errors="surrogateescape"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def fit(text: str, width: int) -> str:
    """Return a visible text of at most `width` columns, with an ellipsis if it was cut."""
    text = make_visible(text)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows as visible lines with aligned columns. Those in `right` are right-aligned."""
    rows = [[make_visible(text) for text in row] for row in rows]
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
