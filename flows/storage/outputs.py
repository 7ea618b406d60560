"""The whole output of programs that failed: a text file for each attempt."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.shortening import shorten_middle, strip_style
from flows.display.terminal import show
from flows.storage.lake import Lake
from flows.storage.whole_files import write_whole, writing

if TYPE_CHECKING:
    from upath import UPath

LAST_LINES = 30
"""Lines of an output that are shown."""


def output_path(lake: Lake, experiment: str, attempt_id: str) -> "Path | UPath":
    """Return the location of the output of an attempt's program."""
    return lake.root / "outputs" / experiment / f"{attempt_id}.txt"


def write_output(lake: Lake, experiment: str, attempt_id: str, output: str) -> None:
    """Write the output of a program that failed, in place of the output of an earlier run.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    lake.make_folder()
    write_whole(output_path(lake, experiment, attempt_id), output.encode(errors="replace"))


def describe_output(lake: Lake, experiment: str, attempt_id: str) -> list[str]:
    """Return a line with the file of an output, and the last lines of it; empty without one.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    path = output_path(lake, experiment, attempt_id)
    with lake.reading():
        try:
            output = path.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return []
    return _quote(path, output)


def show_output(output: str) -> None:
    """Write the output of a program that failed to a new temporary file, and print its end.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    with writing(Path(tempfile.gettempdir())):
        path = Path(tempfile.mkdtemp(prefix="durabench-output-")) / "output.txt"
    write_whole(path, output.encode(errors="replace"))
    for line in _quote(path, output):
        show(line)


def _quote(path: "Path | UPath", output: str) -> list[str]:
    """Return a line with the file of an output, and its last lines in a readable form."""
    lines = strip_style(output).replace("\r\n", "\n").rstrip().split("\n")
    ends = [shorten_middle(line.rpartition("\r")[2], 500) for line in lines[-LAST_LINES:]]
    return [f"The whole output of the program is in {path}. It ends with:", *ends]
