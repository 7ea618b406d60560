"""The work tree of a workspace: its changes, patches and checkpoints, by git through a shell."""

import base64
import shlex
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import PurePosixPath
from typing import ClassVar

from agent.errors import Destroyed, Unfit, WorkspaceError
from agent.workspaces.files import MAX_FILE_BYTES, PIECE_BYTES, ShellFiles
from agent.workspaces.shell import DEFAULT_OUTPUT_BYTES, FinishedCommand, Shell
from agent.workspaces.survey import (
    INLINE_DELTA_BYTES,
    Survey,
    blob_id,
    parse_changes,
    parse_files,
    parse_paths,
    parse_survey,
    tree_id,
)
from agent.workspaces.workspace_values import Change, Checkpoint, Environment

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

MAX_DELTA_BYTES = 256 * 2**20
"""Largest delta of a checkpoint. It contains new binary files, compressed."""

_GIT_TIMEOUT_S = 300.0


_UNFIT = 45
"""Exit code of `probe` if no work is possible."""

_fit_tools: set[str] = set()
"""The places whose tools this process has probed: see `Workspace._begin`."""


class Workspace(ShellFiles):
    """A repository with a shell, private to one attempt.

    Every command runs in a fresh `bash -lc` in the repository's root, with standard input closed.
    Its process group is its own and ends with the command.
    """

    environment: ClassVar[Environment]

    def __init__(self, shell: Shell, *, root: str, base_commit: str, scratch: str) -> None:
        """Use `scratch`, a folder outside the root, for git's data between commands.

        The folder is created if it is missing.
        """
        super().__init__(shell, root=root)
        self._base_commit = base_commit
        self._scratch = scratch
        self.opening = ""
        """Id of the work tree at the opening, equal for equal trees; '' without a repository.

        It is the reference of every difference. In many images it is not the tree of the base
        commit.
        """
        self._files_at_opening: Collection[str] = ()
        self.removed: tuple[str, ...] = ()
        """Names in git that led to commits after the base, and were removed at the opening."""
        self._last_survey: Survey | None = None

    async def holds(self, path: str, content: bytes) -> bool:
        """Return True if there is a file of that content at exactly this path, without links.

        Git enters no links, so the last survey has the id of a changed file.
        """
        current = self._current
        if current is not None and path in current.blobs:
            return current.blobs[path] == blob_id(content)
        return await super().holds(path, content)

    async def originals(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the contents that files had at the opening, except for files that did not exist.

        The paths are relative to the root. For a symbolic link, return its target.

        Raises:
            Destroyed: the repository is gone.
            WorkspaceError: the shell is gone.
        """
        printed = await self._git(
            "firmly originals",
            "originals of files",
            stdin=_end_with_nul(paths),
            keep_bytes=MAX_FILE_BYTES * max(1, len(paths)),
        )
        entries, _, contents = (b"\0" + printed).partition(b"\0\0")
        stream, originals = BytesIO(contents), {}
        for entry in entries.split(b"\0"):
            kind, _, path = entry.partition(b"\t")
            if b" blob " in kind:
                size = int(stream.readline().split()[-1])
                originals[path.decode(errors="surrogateescape")] = stream.read(size)
                stream.read(1)
        return originals

    async def changes(self, since: str | None = None) -> list[Change]:
        """Return the differences from the opening, sorted by path. Later changes to git do not
        matter.

        Ignored files count if they did not exist at the opening. Otherwise they are left out,
        because their earlier content is unknown. The inside of other repositories is left out,
        except for new files in it. With `since`, a tree id of this workspace, return the
        differences from that tree, without ignored files, which are not part of any tree.

        Raises:
            Destroyed: the repository is gone, it is too large, or git's data of the tree are gone.
            WorkspaceError: the shell is gone.
        """
        if since is None:
            return list((await self._survey()).changes)
        current = self._current
        if current is not None and current.since is not None and current.before == since:
            return list(current.since)
        work = f"want={shlex.quote(since)}\nfirmly changes_since"
        return parse_changes(await self._git(work, "changes", keep_bytes=MAX_FILE_BYTES))

    async def put_back(self, paths: Sequence[str]) -> None:
        """Restore exactly these paths to their state at the opening, in content, mode and kind.

        Paths that did not exist are removed. A folder on the way to one of them that was replaced
        by a link or a file is restored as a whole.

        Raises:
            ValueError: a path is not relative to the root, leads out of it or into `.git`.
            WorkspaceError: restoring failed; a fresh workspace can help.
        """
        for path in paths:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] in ("/", "//", ".git") or ".." in parts or "\0" in path:
                raise ValueError(f"not a path of a file inside the repository: {path!r}")
        self._unchanged_since = ""
        stdin = _end_with_nul(paths)
        await self._git("firmly put_back", "files put back", stdin=stdin, retryable=True)

    async def apply(self, patch: str) -> None:
        """Apply a unified diff to the work tree: all of it, or nothing.

        Wrong line counts in its hunks are corrected. A diff against the base commit that contains
        the image's own changes also applies.

        Raises:
            ValueError: git's reason why the diff does not apply.
            Destroyed: the repository is gone.
            WorkspaceError: the shell is gone.
        """
        self._unchanged_since = ""
        done = await self._work_tree("apply", stdin=patch.encode(errors="surrogateescape"))
        if done.exit_code:
            raise ValueError(done.text.strip())

    async def diff(self, without: Sequence[str] = ()) -> str:
        """Return all differences from the opening, except in the paths `without`.

        Untracked files are included. The result is a binary-safe unified diff that `git apply`
        accepts. Bytes that are not UTF-8 are surrogate escapes, so encode it with
        `errors="surrogateescape"`.

        Raises:
            Destroyed: git cannot compare.
            WorkspaceError: the shell is gone.
        """
        patch = await self._git(
            f"unchanged={1 if self._current else ''}\nfirmly patch",
            "diff",
            stdin=_end_with_nul([f":(top,exclude,literal){path}" for path in without]),
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
            Destroyed: the repository is gone, or it is too large.
            WorkspaceError: the shell is gone.
        """
        return (await self._survey()).tree

    async def _survey(self) -> Survey:
        """Return the work tree as it is. Git is asked only if anything changed."""
        if current := self._current:
            return current
        last = self._last_survey
        self._last_survey, self._unchanged_since = None, ""
        work = f"want={last.tree if last else ''}\nmost={INLINE_DELTA_BYTES}\nfirmly survey"
        printed = await self._git(work, "tree", keep_bytes=2 * MAX_FILE_BYTES)
        return self._remember(parse_survey(printed, last, self._files_at_opening))

    @property
    def _current(self) -> Survey | None:
        """The last survey, if nothing has changed since."""
        return self._last_survey if self._unchanged_since else None

    def _remember(self, survey: Survey) -> Survey:
        """Keep a survey until something changes."""
        self._last_survey, self._unchanged_since = survey, survey.stamp
        return survey

    async def checkpoint(self) -> Checkpoint:
        """Return the tree and its difference from the opening, for `restore` in this workspace or
        in a fresh one of the same kind.

        Raises:
            Destroyed: the repository is gone, or the delta is larger than
                `MAX_DELTA_BYTES`.
            WorkspaceError: the shell is gone.
        """
        current = self._current
        if current is not None and current.delta is not None:
            return Checkpoint(current.tree, current.delta)
        printed = await self._git("firmly checkpoint", "checkpoint", keep_bytes=MAX_DELTA_BYTES)
        tree, _, delta = printed.partition(b"\n")
        return Checkpoint(tree_id(tree), delta)

    @abstractmethod
    async def snapshot(self) -> str | None:
        """Save all files as an image, including ignored ones and those outside the repository.

        Return the id of the image, or None for a workspace that cannot be saved as one.

        Raises:
            WorkspaceError: the container is gone, or Docker failed.
        """

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restore the work tree of the checkpoint (None: of the opening) and the repository.

        Branches, settings, the index and ignored files are restored to the opening, except for
        ignored files that existed at the opening and changed since. Ignored files of the checkpoint
        are in the index, because adding them takes force.

        Raises:
            WorkspaceError: the tree is not the checkpoint's; a fresh workspace can help.
        """
        self._last_survey, self._unchanged_since = None, ""
        if checkpoint is None:
            work = "firmly restore_opening"
            delta = None
        else:
            work = f"want={shlex.quote(checkpoint.tree)}\nfirmly restore"
            delta = checkpoint.delta
        printed = await self._git(
            work,
            "restored tree",
            stdin=delta,
            keep_bytes=2 * MAX_FILE_BYTES,
            retryable=True,
        )
        survey = parse_survey(printed, None, self._files_at_opening)
        self._remember(replace(survey, delta=delta))

    async def _begin(self, what: str, tools: str, *, lenient: bool = False) -> bool:
        """Save the repository's state, once and before any command. Return True if there is one.

        `tools` identifies the programs that commands find. They are probed once in each process.
        """
        if not lenient:
            await self._forget()
        probe = f"tools={'fit' if tools in _fit_tools else 'unknown'}\nprobe"
        work = f"({probe} >/dev/null) || exit 0\nbegin" if lenient else f"{probe}\nbegin"
        done = await self._work_tree(work, keep_bytes=MAX_FILE_BYTES)
        if done.exit_code == _UNFIT:
            raise Unfit.of(what, done.text)
        has_begun = self._read_opening(self._output(done, "repository", retryable=True))
        if has_begun:
            _fit_tools.add(tools)
        return has_begun

    async def _begin_again(self) -> bool:
        """Continue from the state that another program saved. Return True if there is one."""
        await self._forget()
        return self._read_opening(
            await self._git("begun", "repository", keep_bytes=MAX_FILE_BYTES, retryable=True)
        )

    async def _forget(self) -> None:
        done = await self._work_tree("forget")
        self.removed = tuple(done.text.splitlines()) if done.exit_code == 0 else ()

    def _read_opening(self, printed: bytes) -> bool:
        """Remember the opening. If it was saved just now, the work tree is as it was then."""
        head, _, files = printed.partition(b"\n")
        if not head:
            return False
        self._base_commit, self.opening, *more = head.decode().split()
        # Images and containers of earlier releases have a digest, and files without their kinds.
        has_kinds = not more or len(more[0]) < len(self.opening)
        self._files_at_opening = (parse_files if has_kinds else parse_paths)(files)
        if more and "." in more[0]:
            self._remember(Survey(more[0], self.opening, changes=()))
        return True

    async def _git(
        self,
        work: str,
        what: str,
        *,
        stdin: bytes | None = None,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        retryable: bool = False,
    ) -> bytes:
        """Return the output of a function of `work_tree.sh`. `what` names it in the error."""
        done = await self._work_tree(work, stdin=stdin, keep_bytes=keep_bytes)
        return self._output(done, what, retryable=retryable)

    async def _work_tree(
        self,
        work: str,
        *,
        stdin: bytes | None = None,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
    ) -> FinishedCommand:
        """Run a function of `work_tree.sh`, with its input as the file `given` in the scratch."""
        encoded = ""
        if stdin is not None and len(stdin) > PIECE_BYTES:
            await self.write(f"{self._scratch}/given", stdin)
        elif stdin is not None:
            encoded = base64.b64encode(stdin).decode()
            work = f"receive {len(encoded)}\n{work}"
        settings = {
            "root": self._root,
            "scratch": self._scratch,
            "base": self._base_commit,
            "opening": self.opening,
        }
        lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
        script = "\n".join([*lines, "enter", work])
        return await self._execute(
            script, timeout_s=_GIT_TIMEOUT_S, keep_bytes=keep_bytes, stdin=encoded
        )

    def _output(self, done: FinishedCommand, what: str, *, retryable: bool = False) -> bytes:
        if done.exit_code or done.left_out:
            reason = "it is too large" if done.left_out else done.text.strip()[-500:]
            message = (
                f"no {what} against {self._base_commit} in {self._root}: "
                f"{reason or f'git exited {done.exit_code}'}"
            )
            raise WorkspaceError(message) if retryable else Destroyed(message)
        return done.head + done.tail


def _end_with_nul(paths: Sequence[str]) -> bytes:
    return "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
