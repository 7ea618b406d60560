"""Where an arm works: one repository at its base commit, and a shell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Environment = Literal["docker", "host"]

ChangeStatus = Literal["added", "modified", "deleted", "typechange"]


@dataclass(frozen=True)
class CommandResult:
    """What one command left behind. Standard error is merged into `output`."""

    exit_code: int
    """The command's exit status; 124 when the timeout ended it."""
    output: str
    """Head and tail of the output, UTF-8 with replacement, a line between them that says
    how many bytes are missing where `truncated` is true."""
    output_bytes: int
    """Bytes that the command wrote, kept or not."""
    truncated: bool
    timed_out: bool
    duration_s: float


@dataclass(frozen=True)
class Checkpoint:
    """A work tree, as what makes it out of the base commit."""

    tree: str
    """The id of its git tree: 40 hexadecimal digits."""
    delta: bytes
    """A binary patch from the base commit; empty where the tree is the base commit's."""


@dataclass(frozen=True)
class Change:
    """A file or symbolic link that is not what it was."""

    path: str
    """Relative to the root; bytes that are not UTF-8 are surrogate escapes."""
    status: ChangeStatus
    """`typechange` where a link or a pipe took the place of a file, or the other way round."""


class Workspace(Protocol):
    """A repository with a shell, private to one attempt.

    Every command runs in a fresh `bash -lc` in the repository's root, in a process group
    of its own that ends with the command, with standard input closed.
    """

    @property
    def environment(self) -> Environment: ...

    @property
    def root(self) -> str:
        """Absolute path of the repository, as commands see it."""
        ...

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a shell command.

        Raises:
            WorkspaceError: the shell or the container is gone.
        """
        ...

    async def read(self, path: str) -> bytes:
        """The content of a file; `path` is absolute or relative to the root.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, and its folders where they are missing."""
        ...

    async def resolve(self, path: str) -> str | None:
        """Where a path leads with every symbolic link followed, whether it exists or not:
        relative to the root (`.` for the root itself), or None where that is outside it.

        Raises:
            OSError: the path cannot be one, such as an empty one.
        """
        ...

    async def original(self, path: str) -> bytes | None:
        """The content that the file at a path relative to the root had at the opening, in
        the base commit; None if there was none. Of a symbolic link, where it leads."""
        ...

    async def changes(self, since: str | None = None) -> list[Change]:
        """What differs from the base commit as it was checked out at the opening, whatever
        was done to git since: ignored files too, if they were not there at the opening.

        With `since`, a tree id of this workspace, what differs from that tree; ignored files
        are left out, as they are of every tree.

        Raises:
            Destroyed, WorkspaceError: as `tree`.
        """
        ...

    async def put_back(self, paths: Sequence[str]) -> None:
        """Make exactly these paths what they were at the opening, in content, mode and kind,
        and remove those that were not there. What took the place of a folder on the way,
        such as a symbolic link, goes, and the whole of that folder is put back.

        Raises:
            ValueError: a path is not relative to the root, leads out of it or into `.git`.
            WorkspaceError: it cannot be done; a fresh workspace can help.
        """
        ...

    async def apply(self, patch: str) -> None:
        """Apply a unified diff to the work tree: all of it, or nothing.

        Raises:
            ValueError: git's reason why it does not apply.
        """
        ...

    async def diff(self) -> str:
        """Everything that differs from the base commit, untracked files included, as a
        binary-safe unified diff that `git apply` takes."""
        ...

    async def tree(self) -> str:
        """The id of the git tree that the work tree is now: files that are tracked or not
        ignored, with their modes. The repository's own state is not touched.

        Raises:
            Destroyed: there is no repository any more, or more of it than can be kept.
            WorkspaceError: the shell or container is gone.
        """
        ...

    async def checkpoint(self) -> Checkpoint:
        """What `restore` needs, in this workspace or in a fresh one of the same kind.

        Raises:
            Destroyed, WorkspaceError: as `tree`.
        """
        ...

    async def snapshot(self) -> str | None:
        """Keep all files, ignored ones and those outside the repository too; the id of the
        image, or None for a workspace that is none.

        Raises:
            WorkspaceError: the container is gone, or Docker failed.
        """
        ...

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Make the work tree exactly that of the checkpoint (None: that of the opening),
        whatever it is now, with the base commit checked out, and verify it by its id.

        Raises:
            WorkspaceError: it is not that tree; a fresh workspace can help.
        """
        ...

    async def close(self) -> None:
        """End every process and remove the container or folder. Never raises; twice is once."""
        ...
