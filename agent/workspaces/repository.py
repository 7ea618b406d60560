"""What both kinds of workspace do through a shell: commands, files and the diff."""

import asyncio
import base64
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from agent.errors import Destroyed, WorkspaceError
from agent.workspaces.protocol import Change, ChangeStatus, Checkpoint, CommandResult
from agent.workspaces.shell import DEFAULT_OUTPUT_BYTES, Finished, Mode, Shell

PAGERS_OFF = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}
"""Nobody pages or watches a bar in a workspace; a waiting pager would be a timeout."""

MAX_FILE_BYTES = 64 * 2**20
"""Largest file that `read` and largest patch that `diff` returns."""

MAX_DELTA_BYTES = 256 * 2**20
"""Largest delta of a checkpoint, which holds new binary files compressed."""

_FILE_TIMEOUT_S = 60.0
_GIT_TIMEOUT_S = 300.0
_PIECE_BYTES = 3 * 2**20  # a multiple of 3, so that pieces of base64 stand alone

_READ = """
[[ -f {path} ]] || exit 44
size=$(wc -c <{path}) || exit 1
((size <= {limit})) || exit 45
base64 <{path}
"""

_WRITE = """
mkdir -p -- "$(dirname -- {path})" && base64 -d {redirect} {path}
"""

_WORK_TREE = Path(__file__).with_name("work_tree.sh").read_text(encoding="utf-8")


_RESOLVE = "cd {root} && realpath -mz -- . {path}"

_STATUSES: dict[str, ChangeStatus] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "T": "typechange",
}

# Set back by more than the kernel's clock tick, and before the tree is read: what changes in
# the same tick, or meanwhile, counts as changed the next time.
_STAMPED_TREE = """
t=$(($(date +%s%N) / 1000 - 20000))
touch -d "@$((t / 1000000)).$(printf %06d $((t % 1000000)))" "$scratch/stamp" 2>/dev/null
firmly tree
"""


class _Opening(NamedTuple):
    """What is known of the repository as it was when the workspace was opened."""

    base: str
    tree: str
    files_digest: str


class ShellWorkspace(ABC):
    """The workspace protocol but for opening and closing, over any shell.

    What is cancelled while its command runs closes the workspace: the command may be at
    any point of its work, and has to end.
    """

    def __init__(self, shell: Shell, *, root: str, base_commit: str, scratch: str) -> None:
        """`scratch` is a folder outside the root, made where it is missing, for what git has
        to remember of the work tree from one command to the next."""
        self._shell = shell
        self._root = root
        self._base_commit = base_commit
        self._scratch = scratch
        self._last_tree: str | None = None
        # Whether anything changed since then. Most commands only read, and to look after each
        # of them, on the way, costs a tenth of asking git.
        self._changed = True
        self._opening: _Opening | None = None

    @property
    def root(self) -> str:
        """Absolute path of the repository, as commands see it."""
        return self._root

    @abstractmethod
    async def close(self) -> None:
        """End every process and remove what was made. Never raises; twice is once."""

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a command in a fresh `bash -lc` in the root, with standard input closed.

        What it leaves in the background, daemons included, is killed when it ends. Of the
        output the first and the last half of `max_output_bytes` (2 MiB) are kept.

        Raises:
            WorkspaceError: the shell or the container is gone.
        """
        keep = DEFAULT_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes
        done = await self._execute(command, timeout_s=timeout_s, keep_bytes=keep, mode="login")
        return CommandResult(
            exit_code=done.exit_code,
            output=done.text,
            output_bytes=done.output_bytes,
            truncated=done.left_out > 0,
            timed_out=done.timed_out,
            duration_s=done.duration_s,
        )

    async def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: there is no such file, or it is a folder or a device.
            OSError: the file cannot be read, or is larger than `MAX_FILE_BYTES`.
        """
        script = _READ.format(path=shlex.quote(self._absolute(path)), limit=MAX_FILE_BYTES)
        done = await self._execute(script, keep_bytes=3 * MAX_FILE_BYTES)
        if done.exit_code == 44:
            raise FileNotFoundError(path)
        if done.exit_code == 45:
            raise OSError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        self._expect_success(done, f"cannot read {path}")
        return base64.b64decode(done.head + done.tail)

    async def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, and its folders where they are missing.

        Raises:
            OSError: the shell's reason, such as a folder of that name or a full disk.
        """
        quoted = shlex.quote(self._absolute(path))
        redirect = ">"
        for start in range(0, max(1, len(content)), _PIECE_BYTES):
            piece = base64.b64encode(content[start : start + _PIECE_BYTES]).decode()
            script = _WRITE.format(path=quoted, redirect=redirect)
            done = await self._execute(script, stdin=piece)
            self._expect_success(done, f"cannot write {path}")
            redirect = ">>"

    async def resolve(self, path: str) -> str | None:
        """Where a path leads with every symbolic link followed, whether it exists or not:
        relative to the root (`.` for the root itself), or None where that is outside it.

        Raises:
            OSError: the path cannot be one, such as an empty one.
        """
        names = {"root": shlex.quote(self._root), "path": shlex.quote(path)}
        done = await self._execute(_RESOLVE.format(**names))
        self._expect_success(done, f"cannot resolve {path}")
        root, real, _ = done.head.decode(errors="surrogateescape").split("\0")
        if not PurePosixPath(real).is_relative_to(root):
            return None
        return str(PurePosixPath(real).relative_to(root))

    async def original(self, path: str) -> bytes | None:
        """The content that the file at a path relative to the root had at the opening, None
        if there was none. Of a symbolic link, where it leads.

        Raises:
            Destroyed: there is no repository any more.
            WorkspaceError: the shell is gone.
        """
        work = f"name={shlex.quote(path)}\nfirmly original"
        done = await self._work_tree(work, keep_bytes=MAX_FILE_BYTES)
        if done.exit_code == 44:
            return None
        return self._output(done, f"original of {path}")

    async def changes(self, since: str | None = None) -> list[Change]:
        """What differs from the opening, in the order of the paths.

        Files that were there at the opening without being tracked, and were ignored, are left
        out: nobody knows what they were. So is the inside of other repositories, but for
        what is new in it.

        Raises:
            Destroyed: there is no repository any more, or it is too large.
            WorkspaceError: the shell is gone.
        """
        work = (
            "firmly changes"
            if since is None
            else f"want={shlex.quote(since)}\nfirmly changes_since"
        )
        listed = await self._git(work, "changes", keep_bytes=MAX_FILE_BYTES)
        fields = listed.decode(errors="surrogateescape").split("\0")[:-1]
        found = [
            Change(path, _STATUSES[status])
            for status, path in zip(fields[::2], fields[1::2], strict=True)
        ]
        return sorted(found, key=lambda change: change.path)

    async def put_back(self, paths: Sequence[str]) -> None:
        """Make exactly these paths what they were at the opening; a folder that gave way to
        a link or a file on the way to one of them comes back as a whole.

        Raises:
            ValueError: a path is not relative to the root, leads out of it or into `.git`.
            WorkspaceError: it cannot be done; a fresh workspace can help.
        """
        for path in paths:
            _expect_inside(path)
        given = "".join(f"{path}\0" for path in paths)
        await self.write(f"{self._scratch}/given", given.encode(errors="surrogateescape"))
        await self._git("firmly put_back", "files put back", retryable=True)

    async def apply(self, patch: str) -> None:
        """Apply a unified diff to the work tree: all of it, or nothing. Line counts of its
        hunks that are wrong are put right.

        Raises:
            ValueError: git's reason why it does not apply.
            Destroyed: there is no repository any more.
            WorkspaceError: the shell is gone.
        """
        given = f"{self._scratch}/given"
        await self.write(given, patch.encode(errors="surrogateescape"))
        done = await self._work_tree("apply")
        if done.exit_code:
            raise ValueError(done.text.strip())

    async def diff(self) -> str:
        """Everything that differs from the base commit; bytes that are not UTF-8 are
        surrogate escapes, so encode it with `errors="surrogateescape"`.

        Raises:
            Destroyed: git cannot compare.
            WorkspaceError: the shell is gone.
        """
        patch = await self._git("firmly patch", "diff", keep_bytes=MAX_FILE_BYTES)
        return patch.decode(errors="surrogateescape")

    async def tree(self) -> str:
        """The id of the git tree that the work tree is now, of 40 hexadecimal digits.

        It depends on files, modes and symbolic links alone, of everything tracked and of
        everything else that is not ignored. Empty folders, and the inside of other
        repositories, are not part of it.

        Raises:
            Destroyed: there is no repository any more, or it is too large.
            WorkspaceError: the shell is gone.
        """
        if self._last_tree is None or self._changed:
            self._last_tree = None
            self._last_tree = _tree_id(await self._git(_STAMPED_TREE, "tree"))
            self._changed = False
        return self._last_tree

    async def checkpoint(self) -> Checkpoint:
        """The tree, and what makes it out of the base commit.

        Raises:
            Destroyed: there is no repository any more, or the delta is larger than
                `MAX_DELTA_BYTES`.
            WorkspaceError: the shell is gone.
        """
        made = await self._git("firmly checkpoint", "checkpoint", keep_bytes=MAX_DELTA_BYTES)
        tree, _, delta = made.partition(b"\n")
        return Checkpoint(_tree_id(tree), delta)

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Make the work tree that of the checkpoint, or of the opening where that is None,
        and the repository what it was at first.

        Branches, settings and the index are those of the opening; ignored files are too,
        except that what was there at the opening and changed since is left as it is.
        Ignored files of the checkpoint are in the index, as it takes force to add them.

        Raises:
            WorkspaceError: the tree is not the checkpoint's; a fresh workspace can help.
        """
        if checkpoint is None:
            await self._git("firmly restore_opening", "restored tree", retryable=True)
            return
        given = f"{self._scratch}/given"
        await self.write(given, checkpoint.delta)
        work = f"want={shlex.quote(checkpoint.tree)}\nfirmly restore"
        await self._git(work, "restored tree", retryable=True)

    async def _begin(self) -> bool:
        """Remember how the repository is; whether there is one. Done once, before any command."""
        return self._remember(await self._git("begin", "repository", retryable=True))

    async def _begin_again(self) -> bool:
        """Whether another program remembered how the repository was; that is gone on with."""
        return self._remember(await self._git("begun", "repository", retryable=True))

    def _remember(self, known: bytes) -> bool:
        fields = known.decode().split()
        self._opening = _Opening(*fields) if fields else None
        return self._opening is not None

    async def _git(
        self,
        work: str,
        what: str,
        *,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        retryable: bool = False,
    ) -> bytes:
        """The output of a function of `work_tree.sh`; `what` names it in the error."""
        done = await self._work_tree(work, keep_bytes=keep_bytes)
        return self._output(done, what, retryable=retryable)

    async def _work_tree(self, work: str, *, keep_bytes: int = DEFAULT_OUTPUT_BYTES) -> Finished:
        """Run a function of `work_tree.sh`."""
        opening = self._opening or _Opening(self._base_commit, "", "")
        settings = {
            "root": self._root,
            "scratch": self._scratch,
            "base": opening.base,
            "opening": opening.tree,
            "files_digest": opening.files_digest,
        }
        lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
        script = "\n".join([*lines, _WORK_TREE, work])
        return await self._execute(script, timeout_s=_GIT_TIMEOUT_S, keep_bytes=keep_bytes)

    def _output(self, done: Finished, what: str, *, retryable: bool = False) -> bytes:
        if done.exit_code or done.left_out:
            reason = "it is too large" if done.left_out else done.text.strip()[-500:]
            message = (
                f"no {what} against {self._base_commit} in {self._root}: "
                f"{reason or f'git exited {done.exit_code}'}"
            )
            raise WorkspaceError(message) if retryable else Destroyed(message)
        return done.head + done.tail

    async def _execute(
        self,
        command: str,
        *,
        timeout_s: float = _FILE_TIMEOUT_S,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        mode: Mode = "plain",
        stdin: str = "",
    ) -> Finished:
        try:
            done = await self._shell.run(
                command,
                timeout_s=timeout_s,
                mode=mode,
                keep_bytes=keep_bytes,
                stdin=stdin,
                stamp=f"{self._scratch}/stamp" if self._last_tree else "",
            )
        except asyncio.CancelledError:
            if self._shell.gone:
                await self.close()
            raise
        self._changed = done.changed
        return done

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._root}/{path}"

    def _expect_success(self, done: Finished, failure: str) -> None:
        if done.exit_code:
            raise OSError(f"{failure}: {done.text.strip() or f'exit {done.exit_code}'}")


def _expect_inside(path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or parts[0] in ("/", "//", ".git") or ".." in parts or "\0" in path:
        raise ValueError(f"not a path of a file inside the repository: {path!r}")


def _tree_id(output: bytes) -> str:
    tree = output.decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{40}", tree):
        raise WorkspaceError(f"git names no tree: {tree[-500:]}", retryable=False)
    return tree
