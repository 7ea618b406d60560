"""The workspace of an arm: one repository at its base commit, and a shell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

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


class Workspace(Protocol):
    """A repository with a shell, private to one attempt.

    Every command runs in a fresh `bash -lc` in the repository's root, with standard input closed.
    Its process group is its own and ends with the command.
    """

    @property
    def environment(self) -> Environment: ...

    @property
    def root(self) -> str:
        """Absolute path of the repository, as seen by commands."""
        ...

    @property
    def opening(self) -> str:
        """Id of the work tree at the opening, equal for equal trees; '' without a repository."""
        ...

    @property
    def limits_reached(self) -> Mapping[str, str]:
        """The limits that were reached since the opening: name of the setting to description.

        `memory_gb` is `the memory limit of 4 GB`. A host workspace has no limits.
        """
        ...

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a shell command.

        Raises:
            WorkspaceError: the shell or the container is gone.
        """
        ...

    async def run_python(
        self, program: str, given: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a Python program that gets one line of input, which no command can read.

        The interpreter and its environment are those that a login shell finds at the opening.
        Nothing that commands changed since takes their place. In a container whose interpreter was
        changed the program is not run.

        Raises:
            WorkspaceError: the shell or the container is gone.
        """
        ...

    async def read(self, path: str) -> bytes:
        """Return the content of a file. `path` is absolute or relative to the root.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, and create missing folders."""
        ...

    async def resolve(self, path: str) -> str | None:
        """Return the target of a path with all symbolic links followed, whether it exists or not.

        The result is relative to the root (`.` for the root itself), or None if it is outside the
        root.

        Raises:
            OSError: the path is invalid, such as an empty one.
        """
        ...

    async def resolve_all(self, paths: Sequence[str]) -> list[str | None]:
        """Return the targets of several paths, as `resolve` does.

        Raises:
            OSError: a path is invalid, such as an empty one.
        """
        ...

    async def look_up(self, paths: Sequence[str]) -> list[Found]:
        """Return the targets of paths, as `resolve` does, and the contents of files.

        Raises:
            OSError: a path is invalid, such as an empty one, or the files are too large together.
        """
        ...

    async def holds(self, path: str, content: bytes) -> bool:
        """Return True if there is a file of that content at exactly this path, without links.

        The path is relative to the root.
        """
        ...

    async def originals(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the contents that files had at the opening, without those that did not exist.

        The paths are relative to the root. For a symbolic link, return its target.
        """
        ...

    async def changes(self, since: str | None = None) -> list[Change]:
        """Return the differences from the work tree at the opening.

        Later changes to git do not matter. Ignored files count too, if they did not exist at the
        opening. With `since`, a tree id of this workspace, return the differences from that tree;
        ignored files are left out, because they are not part of any tree.

        Raises:
            Destroyed, WorkspaceError: as in `tree`.
        """
        ...

    async def put_back(self, paths: Sequence[str]) -> None:
        """Restore exactly these paths to their state at the opening, in content, mode and kind.

        Paths that did not exist are removed. Anything that replaced a folder on the way, such as a
        symbolic link, is removed, and that whole folder is restored.

        Raises:
            ValueError: a path is not relative to the root, leads out of it or into `.git`.
            WorkspaceError: restoring failed; a fresh workspace can help.
        """
        ...

    async def apply(self, patch: str) -> None:
        """Apply a unified diff to the work tree: all of it, or nothing.

        A diff against the base commit that contains the image's own changes applies, too.

        Raises:
            ValueError: git's reason why the diff does not apply.
        """
        ...

    async def diff(self, without: Sequence[str] = ()) -> str:
        """Return all differences from the opening, including untracked files.

        Differences in the paths `without` are left out.

        The result is a binary-safe unified diff that `git apply` accepts.
        """
        ...

    async def diff_since(self, tree: str) -> str:
        """Return all differences from a tree that this workspace had, as `diff` does."""
        ...

    async def tree(self) -> str:
        """Return the id of the git tree of the current work tree.

        The tree contains the files that are tracked or not ignored, with their modes. The
        repository's own state is not changed.

        Raises:
            Destroyed: the repository is gone or too large to be saved.
            WorkspaceError: the shell or container is gone.
        """
        ...

    async def checkpoint(self) -> Checkpoint:
        """Return the input for `restore` in this workspace or in a fresh one of the same kind.

        Raises:
            Destroyed, WorkspaceError: as in `tree`.
        """
        ...

    async def snapshot(self) -> str | None:
        """Save all files as an image, including ignored ones and those outside the repository.

        Return the id of the image, or None for a workspace that cannot be saved as one.

        Raises:
            WorkspaceError: the container is gone, or Docker failed.
        """
        ...

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restore the work tree of the checkpoint (None: that of the opening), and verify its id.

        The current state of the work tree does not matter.

        Raises:
            WorkspaceError: the result is another tree; a fresh workspace can help.
        """
        ...

    async def close(self) -> None:
        """End every process and remove the container or folder. Never raises; idempotent."""
        ...
