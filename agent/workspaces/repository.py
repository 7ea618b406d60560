"""Operations that both kinds of workspace run through a shell: commands, files and the diff."""

import asyncio
import base64
import hashlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from agent.errors import Destroyed, WorkspaceError
from agent.workspaces.protocol import Change, Checkpoint, CommandResult
from agent.workspaces.shell import DEFAULT_OUTPUT_BYTES, Finished, Mode, Shell
from agent.workspaces.survey import (
    INLINE_DELTA_BYTES,
    Survey,
    parse_changes,
    parse_survey,
    tree_id,
)

PAGERS_OFF = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}
"""Settings without pagers and progress bars.

They are of no use in a workspace, and a waiting pager would end in a timeout.
"""

MAX_FILE_BYTES = 64 * 2**20
"""Largest file that `read` returns, and largest patch that `diff` returns."""

MAX_DELTA_BYTES = 256 * 2**20
"""Largest delta of a checkpoint. It contains new binary files, compressed."""

_FILE_TIMEOUT_S = 60.0
_GIT_TIMEOUT_S = 300.0
_PIECE_BYTES = 3 * 2**20  # a multiple of 3, so that pieces of base64 can be decoded alone

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


_DIGEST = """
cd {root} && [[ -f {path} && $(realpath -m -- {path}) == "$(realpath .)"/{path} ]] &&
  sha256sum <{path}
"""

_RESOLVE = "cd {root} && realpath -mz -- . {paths}"


class _Opening(NamedTuple):
    """The state of the repository when the workspace was opened."""

    base: str
    tree: str
    files_digest: str


class ShellWorkspace(ABC):
    """The workspace protocol except for opening and closing, over any shell.

    Cancelling a call while its command runs closes the workspace: the command may be at any point
    of its work, and has to end.
    """

    def __init__(self, shell: Shell, *, root: str, base_commit: str, scratch: str) -> None:
        """Use `scratch`, a folder outside the root, for git's data between commands.

        The folder is created if it is missing.
        """
        self._shell = shell
        self._root = root
        self._base_commit = base_commit
        self._scratch = scratch
        self._last_survey: Survey | None = None
        # True if anything changed since then. Most commands only read, and checking for changes as
        # part of each command takes a tenth of the time of asking git. Scripts of our own that only
        # read are not checked.
        self._changed = True
        self._opening: _Opening | None = None

    @property
    def root(self) -> str:
        """Absolute path of the repository, as seen by commands."""
        return self._root

    @abstractmethod
    async def close(self) -> None:
        """End every process and remove all that was made. Never raises. May be called twice."""

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a command in a fresh `bash -lc` in the root, with standard input closed.

        Processes that it leaves in the background, including daemons, are killed when it ends. The
        first and the last half of `max_output_bytes` (2 MiB) of the output are kept.

        Raises:
            WorkspaceError: the shell or the container is gone.
        """
        keep = DEFAULT_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes
        done = await self._execute(
            command, timeout_s=timeout_s, keep_bytes=keep, mode="login", may_change=True
        )
        return CommandResult(
            exit_code=done.exit_code,
            output=done.text,
            output_bytes=done.output_bytes,
            truncated=done.left_out > 0,
            timed_out=done.timed_out,
            duration_s=done.duration_s,
        )

    async def read(self, path: str) -> bytes:
        """Return the content of a file.

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
        """Create or replace a file, and create missing folders.

        Raises:
            OSError: the shell's reason, such as a folder of that name or a full disk.
        """
        quoted = shlex.quote(self._absolute(path))
        redirect = ">"
        for start in range(0, max(1, len(content)), _PIECE_BYTES):
            piece = base64.b64encode(content[start : start + _PIECE_BYTES]).decode()
            script = _WRITE.format(path=quoted, redirect=redirect)
            done = await self._execute(script, stdin=piece, may_change=True)
            self._expect_success(done, f"cannot write {path}")
            redirect = ">>"

    async def resolve(self, path: str) -> str | None:
        """Return the target of a path with all symbolic links followed, whether it exists or not.

        The result is relative to the root (`.` for the root itself), or None if it is outside the
        root.

        Raises:
            OSError: the path is invalid, such as an empty one.
        """
        [resolved] = await self.resolve_all([path])
        return resolved

    async def resolve_all(self, paths: Sequence[str]) -> list[str | None]:
        """Return the targets of several paths, as `resolve` does.

        Raises:
            OSError: a path is invalid.
        """
        names = {"root": shlex.quote(self._root), "paths": shlex.join(paths)}
        done = await self._execute(_RESOLVE.format(**names))
        self._expect_success(done, f"cannot resolve {', '.join(paths)}")
        root, *found, _ = done.head.decode(errors="surrogateescape").split("\0")
        return [
            str(PurePosixPath(real).relative_to(root))
            if PurePosixPath(real).is_relative_to(root)
            else None
            for real in found
        ]

    async def holds(self, path: str, content: bytes) -> bool:
        """Return True if there is a file of that content at exactly this path, without links."""
        script = _DIGEST.format(root=shlex.quote(self._root), path=shlex.quote(path))
        done = await self._execute(script)
        digest = hashlib.sha256(content).hexdigest()
        return done.exit_code == 0 and done.text.partition(" ")[0].strip("\\") == digest

    async def original(self, path: str) -> bytes | None:
        """Return the content that a file had at the opening, or None if it did not exist.

        The path is relative to the root. For a symbolic link, return its target.

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
        """Return the differences from the opening, sorted by path.

        Untracked files that were ignored at the opening are left out, because their earlier content
        is unknown. The inside of other repositories is left out too, except for new files in it.

        Raises:
            Destroyed: there is no repository any more, or it is too large.
            WorkspaceError: the shell is gone.
        """
        if since is None:
            survey = await self._survey(with_changes=True)
            return list(survey.changes or ())
        last = None if self._changed else self._last_survey
        if last is not None and last.since is not None and last.before == since:
            return list(last.since)
        work = f"want={shlex.quote(since)}\nfirmly changes_since"
        return list(parse_changes(await self._git(work, "changes", keep_bytes=MAX_FILE_BYTES)))

    async def put_back(self, paths: Sequence[str]) -> None:
        """Restore exactly these paths to their state at the opening.

        A folder on the way to one of them that was replaced by a link or a file is restored as a
        whole.

        Raises:
            ValueError: a path is not relative to the root, leads out of it or into `.git`.
            WorkspaceError: restoring failed; a fresh workspace can help.
        """
        for path in paths:
            _expect_inside(path)
        given = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        await self._git(
            "firmly put_back", "files put back", given=given, retryable=True, may_change=True
        )

    async def apply(self, patch: str) -> None:
        """Apply a unified diff to the work tree: all of it, or nothing.

        Wrong line counts in its hunks are corrected.

        Raises:
            ValueError: git's reason why the diff does not apply.
            Destroyed: there is no repository any more.
            WorkspaceError: the shell is gone.
        """
        given = patch.encode(errors="surrogateescape")
        done = await self._work_tree("apply", given=given, may_change=True)
        if done.exit_code:
            raise ValueError(done.text.strip())

    async def diff(self, without: Sequence[str] = ()) -> str:
        """Return all differences from the base commit, except for those in the paths `without`.

        Bytes that are not UTF-8 are surrogate escapes, so encode the diff with
        `errors="surrogateescape"`.

        Raises:
            Destroyed: git cannot compare.
            WorkspaceError: the shell is gone.
        """
        given = "".join(f":(top,exclude,literal){path}\0" for path in without)
        patch = await self._git(
            "firmly patch",
            "diff",
            given=given.encode(errors="surrogateescape"),
            keep_bytes=MAX_FILE_BYTES,
        )
        return patch.decode(errors="surrogateescape")

    async def diff_since(self, tree: str) -> str:
        """Return all differences from a tree that this workspace had, like `diff`."""
        work = f"want={shlex.quote(tree)}\nfirmly patch_since"
        patch = await self._git(work, "diff", keep_bytes=MAX_FILE_BYTES)
        return patch.decode(errors="surrogateescape")

    async def tree(self) -> str:
        """Return the id of the git tree of the current work tree, 40 hexadecimal digits.

        It depends only on the files, modes and symbolic links of all paths that are tracked or not
        ignored. Empty folders and the inside of other repositories are not part of it.

        Raises:
            Destroyed: there is no repository any more, or it is too large.
            WorkspaceError: the shell is gone.
        """
        return (await self._survey()).tree

    async def _survey(self, *, with_changes: bool = False) -> Survey:
        """Return the work tree as it is. Git is asked only if anything changed."""
        last = self._last_survey
        if last is not None and last.changes is not None:  # they will be asked for again
            with_changes = True
        is_enough = last is not None and (last.changes is not None or not with_changes)
        if last is None or self._changed or not is_enough:
            # Without a survey, a command does not look for changes.
            self._last_survey = None
            known = last.tree if last else ""
            work = f"want={known}\nmost={INLINE_DELTA_BYTES}\nfirmly survey {int(with_changes)}"
            found = await self._git(work, "tree", keep_bytes=2 * MAX_FILE_BYTES)
            last = self._last_survey = parse_survey(found, last)
            self._changed = False
        return last

    async def checkpoint(self) -> Checkpoint:
        """Return the tree and its difference from the base commit.

        Raises:
            Destroyed: there is no repository any more, or the delta is larger than
                `MAX_DELTA_BYTES`.
            WorkspaceError: the shell is gone.
        """
        last = self._last_survey
        if last is not None and last.delta is not None and not self._changed:
            return Checkpoint(last.tree, last.delta)
        made = await self._git("firmly checkpoint", "checkpoint", keep_bytes=MAX_DELTA_BYTES)
        tree, _, delta = made.partition(b"\n")
        return Checkpoint(tree_id(tree), delta)

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restore the work tree of the checkpoint (None: that of the opening) and the repository.

        Branches, settings and the index are those of the opening. So are ignored files, except that
        those which existed at the opening and changed since are left as they are. Ignored files of
        the checkpoint are in the index, because adding them takes force.

        Raises:
            WorkspaceError: the tree is not the checkpoint's; a fresh workspace can help.
        """
        self._last_survey = None
        if checkpoint is None:
            stamp = await self._git("firmly restore_opening", "restored tree", retryable=True)
            tree, delta = self._opening.tree if self._opening else "", None
        else:
            work = f"want={shlex.quote(checkpoint.tree)}\nfirmly restore"
            stamp = await self._git(work, "restored tree", given=checkpoint.delta, retryable=True)
            tree, delta = checkpoint.tree, checkpoint.delta
        self._last_survey = Survey(stamp.decode().strip(), tree, delta=delta)
        self._changed = False

    async def _begin(self) -> bool:
        """Save the repository's state, once and before any command. Return True if there is one."""
        return self._remember(await self._git("begin", "repository", retryable=True))

    async def _begin_again(self) -> bool:
        """Continue from the state that another program saved. Return True if there is one."""
        return self._remember(await self._git("begun", "repository", retryable=True))

    def _remember(self, known: bytes) -> bool:
        """Keep the opening. If it was saved just now, the work tree is as it was then."""
        fields = known.decode().split()
        self._opening = _Opening(*fields[:3]) if fields else None
        if self._opening is not None and fields[3:]:
            self._last_survey, self._changed = Survey(fields[3], self._opening.tree), False
        return self._opening is not None

    async def _git(
        self,
        work: str,
        what: str,
        *,
        given: bytes | None = None,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        retryable: bool = False,
        may_change: bool = False,
    ) -> bytes:
        """Return the output of a function of `work_tree.sh`. `what` names it in the error."""
        done = await self._work_tree(
            work, given=given, keep_bytes=keep_bytes, may_change=may_change
        )
        return self._output(done, what, retryable=retryable)

    async def _work_tree(
        self,
        work: str,
        *,
        given: bytes | None = None,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        may_change: bool = False,
    ) -> Finished:
        """Run a function of `work_tree.sh`, with its input `given` as a file in the scratch."""
        stdin = ""
        if given is not None and len(given) > _PIECE_BYTES:
            await self.write(f"{self._scratch}/given", given)
        elif given is not None:
            work, stdin = f"receive\n{work}", base64.b64encode(given).decode()
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
        return await self._execute(
            script,
            timeout_s=_GIT_TIMEOUT_S,
            keep_bytes=keep_bytes,
            stdin=stdin,
            may_change=may_change,
        )

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
        may_change: bool = False,
    ) -> Finished:
        """Run a command. If it may change the work tree, notice whether anything has changed."""
        last = self._last_survey if may_change and not self._changed else None
        try:
            done = await self._shell.run(
                command,
                timeout_s=timeout_s,
                mode=mode,
                keep_bytes=keep_bytes,
                stdin=stdin,
                stamp=last.stamp if last else "",
            )
        except asyncio.CancelledError:
            if self._shell.gone:
                await self.close()
            raise
        self._changed = self._changed or (may_change and done.changed)
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
