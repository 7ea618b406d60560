"""The values that a workspace takes and returns."""

from dataclasses import dataclass
from typing import Literal

Environment = Literal["docker", "host"]

ChangeStatus = Literal["added", "modified", "deleted", "typechange"]


@dataclass(frozen=True)
class CommandResult:
    """The result of one command. Standard error is merged into `output`."""

    exit_code: int
    """The command's exit status; 124 if the timeout ended it."""
    output: str
    """Head and tail of the output, UTF-8 with replacement.

    If `truncated` is True, a line between them states how many bytes are missing.
    """
    output_bytes: int
    """Bytes that the command wrote, kept or not."""
    truncated: bool
    timed_out: bool
    duration_s: float


@dataclass(frozen=True)
class Mount:
    """A folder of this machine, or a volume of its Docker daemon, that a container may read."""

    source: str
    """An absolute path, or the name of a volume."""
    target: str
    """The absolute path in the container."""


@dataclass(frozen=True)
class Checkpoint:
    """A work tree, as its difference from that at the opening."""

    tree: str
    """The id of its git tree: 40 hexadecimal digits."""
    delta: bytes
    """A binary patch from the tree at the opening; empty if it is that tree."""


@dataclass(frozen=True)
class Change:
    """A file or symbolic link that differs from its earlier state."""

    path: str
    """Relative to the root; bytes that are not UTF-8 are surrogate escapes."""
    status: ChangeStatus
    """`typechange` if a link or a pipe replaced a file, or the other way round."""


@dataclass(frozen=True)
class Found:
    """The target of a path, with all symbolic links followed, and its content."""

    path: str | None
    """The target relative to the root, whether it exists or not; None if it is outside."""
    content: bytes | None = None
    """The content of a file inside the root that can be read."""
    problem: str = ""
    """The reason why a file inside the root cannot be read, or ''."""
