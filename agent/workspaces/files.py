"""Commands and files of a workspace, each one exchange with its shell."""

import asyncio
import base64
import posixpath
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import PurePosixPath
from time import monotonic
from typing import Any

from agent.workspaces.apart import NoPython, Process
from agent.workspaces.shell import (
    DEFAULT_OUTPUT_BYTES,
    FinishedCommand,
    Mode,
    Output,
    Shell,
    ShellEnded,
)
from agent.workspaces.workspace_values import CommandResult, Found

MAX_FILE_BYTES = 64 * 2**20
"""Largest file that is read, and largest patch that `diff` returns."""

PIECE_BYTES = 3 * 2**20
"""Largest input of one exchange. A multiple of 3, so that pieces of base64 can be decoded alone."""

_FILE_TIMEOUT_S = 60.0

_START_S = 3.0
"""Time for a busy machine to start a program next to the shell. Its limit starts after that."""

_KILLED = "\n[The shell was killed with all that ran in it. Another one was started.]"
_NO_COMMAND = "[bash takes no command with NUL characters or lone surrogates]"
_TIMED_OUT, _CANNOT_EXECUTE, _NOT_FOUND = 124, 126, 127

_TOO_LARGE = f"{{}} is larger than {MAX_FILE_BYTES} bytes"

_MAX_PATH_CHARS = 4096
_SHOWN_CHARS = 200


class ShellFiles(ABC):
    """The part of a workspace that needs no git, over any shell.

    Cancelling a call while its command runs closes the workspace, because the command can be at any
    point of its work, and must end.
    """

    def __init__(self, shell: Shell, *, root: str) -> None:
        self._shell = shell
        self._replacing = asyncio.Lock()
        self._root = root
        # The time in the workspace since which nothing in the root has changed; empty if something
        # has, or if that is unknown. Most commands only read, and checking for changes as part of
        # each command takes a tenth of the time of git. Our scripts that only read are not checked.
        self._unchanged_since = ""

    @property
    def root(self) -> str:
        """Absolute path of the repository, as seen by commands."""
        return self._root

    @property
    def limits_reached(self) -> Mapping[str, str]:
        """The limits that were reached since the opening: name of the setting to description.

        `memory_gb` is `the memory limit of 4 GB`. A host workspace has no limits.
        """
        return {}

    @abstractmethod
    async def close(self) -> None:
        """End every process and remove the container or folder. Never raises; idempotent."""

    @abstractmethod
    async def _revive(self) -> Shell:
        """End all processes, and return a new shell."""

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a command in a fresh `bash -lc` in the root, with standard input closed.

        Processes that it leaves in the background, including daemons, are killed when it ends. The
        first and the last half of `max_output_bytes` (2 MiB) of the output are kept. If the command
        kills the shell, that is its result, with exit code 137 (124 if the shell hangs).

        Raises:
            Destroyed: it left a workspace in which no shell can be started.
            WorkspaceError: the workspace is gone.
        """
        try:
            is_valid = b"\0" not in command.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            is_valid = False
        if not is_valid:
            size = len(_NO_COMMAND)
            return CommandResult(_CANNOT_EXECUTE, _NO_COMMAND, size, False, False, 0.0)
        note = ""
        try:
            done = await self._execute(
                command,
                timeout_s=timeout_s,
                keep_bytes=max_output_bytes or DEFAULT_OUTPUT_BYTES,
                mode="login",
                may_change=True,
            )
        except ShellEnded as ended:
            if ended.so_far is None:
                raise
            self._unchanged_since = ""
            await self._replace()
            done, note = ended.so_far, _KILLED
        return self._result(done, note)

    async def run_python(
        self, program: str, given: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        """Run a Python program that gets one line of input, which no command can read.

        It runs apart from the shell, whose memory other processes of its user can read. The
        interpreter and its environment are the same as for a login shell at the opening, whatever
        commands changed since. In a container whose interpreter was changed, the program is not
        run. When it ends, the processes that it leaves are killed, as with `run`.

        Raises:
            Destroyed: it left a workspace in which no shell can be started.
            WorkspaceError: the workspace is gone.
        """
        start = monotonic()
        output = Output(max_output_bytes or DEFAULT_OUTPUT_BYTES)
        timed_out, exit_code, note = False, _TIMED_OUT, ""
        try:
            async with self._shell.alone(), self._python(program) as process:
                async with asyncio.timeout(timeout_s + _START_S):
                    exit_code = await process.talk(f"{given}\n".encode(), output)
        except TimeoutError:
            timed_out = True
        except NoPython as error:
            exit_code = _NOT_FOUND
            output.add(f"{error}\n".encode())
        except asyncio.CancelledError:
            await self.close()
            raise
        try:
            await self._execute("unset WORKSPACE_MARK; kill_stragglers", may_change=True)
        except ShellEnded:
            self._unchanged_since, note = "", _KILLED
            await self._replace()
        done = output.finish(exit_code, monotonic() - start, timed_out=timed_out)
        return self._result(done, note)

    @abstractmethod
    def _python(self, program: str) -> AbstractAsyncContextManager[Process]:
        """Start a Python program with the interpreter and the environment of the opening."""

    def _result(self, done: FinishedCommand, note: str) -> CommandResult:
        return CommandResult(
            exit_code=done.exit_code,
            output=done.text + note + self._describe_limits(),
            output_bytes=done.output_bytes,
            truncated=done.left_out > 0,
            timed_out=done.timed_out,
            duration_s=done.duration_s,
        )

    def _describe_limits(self) -> str:
        """Return a line about the limits that the last command reached, for its output, or ''."""
        return ""

    async def read(self, path: str) -> bytes:
        """Return the content of a file. `path` is absolute or relative to the root.

        Raises:
            FileNotFoundError: there is no such file, or it is a folder or a device.
            OSError: the file cannot be read, or is larger than `MAX_FILE_BYTES`.
        """
        done = await self._read("read_file", [self._absolute(path)])
        if done.exit_code == 44:
            raise FileNotFoundError(path)
        self._expect_success(done, f"cannot read {path}")
        content = base64.b64decode(done.head + done.tail)
        if len(content) > MAX_FILE_BYTES:
            raise OSError(_TOO_LARGE.format(path))
        return content

    async def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, and create missing folders.

        Raises:
            OSError: the shell's reason, such as a folder of that name or a full disk.
        """
        target = self._absolute(path)
        name, folder = shlex.quote(target), shlex.quote(posixpath.dirname(target))
        redirect = ">"
        if PurePosixPath(target).is_relative_to(self._root):
            self._unchanged_since = ""  # no search for a change that is known
        for start in range(0, max(1, len(content)), PIECE_BYTES):
            piece = base64.b64encode(content[start : start + PIECE_BYTES]).decode()
            script = f"[[ -d {folder} ]] || mkdir -p -- {folder} && base64 -d {redirect} {name}"
            done = await self._execute(script, stdin=piece, may_change=True)
            self._expect_success(done, f"cannot write {path}")
            redirect = ">>"

    async def resolve(self, paths: Sequence[str]) -> list[str | None]:
        """Return the targets of paths with all symbolic links followed, existing or not.

        A target is relative to the root (`.` for the root itself), or None if it is outside.

        Raises:
            OSError: a path is invalid, such as an empty one.
        """
        done = await self._read("print_resolved", paths)
        self._expect_success(done, f"cannot resolve {', '.join(paths)}")
        root, *targets, _ = done.head.split(b"\0")
        return _relative_to(root, targets)

    async def look_up(self, paths: Sequence[str]) -> list[Found]:
        """Return the targets of paths, as `resolve` does, and the contents of files.

        Raises:
            OSError: a path is invalid, such as an empty one, or the files are too large together.
        """
        done = await self._read("look_up", paths)
        names = ", ".join(paths)
        self._expect_success(done, f"cannot resolve {names}")
        if done.left_out:
            raise OSError(f"{names} are too large together")
        root, *targets, printed = (done.head + done.tail).split(b"\0")
        inside = _relative_to(root, targets)
        lines = printed.decode().splitlines()
        return [
            _parse_found(target, line, path)
            for target, line, path in zip(inside, lines, paths, strict=True)
        ]

    async def holds(self, path: str, content: bytes) -> bool:
        """Return True if there is a file of that content at exactly this path, without links.

        The path is relative to the root.
        """
        [file] = await self.look_up([path])
        return file.path == path and file.content == content

    async def _read(self, function: str, paths: Sequence[str]) -> FinishedCommand:
        """Run a function of `files.sh`."""
        if too_long := [path for path in paths if len(path) > _MAX_PATH_CHARS]:
            raise OSError(f"{too_long[0][:_SHOWN_CHARS]}...: File name too long")
        script = (
            f"root={shlex.quote(self._root)}\nmost={MAX_FILE_BYTES}\n{function} {shlex.join(paths)}"
        )
        return await self._execute(script, keep_bytes=3 * MAX_FILE_BYTES)

    async def _execute(
        self,
        command: str,
        *,
        timeout_s: float = _FILE_TIMEOUT_S,
        keep_bytes: int = DEFAULT_OUTPUT_BYTES,
        mode: Mode = "plain",
        stdin: str = "",
        may_change: bool = False,
    ) -> FinishedCommand:
        """Run a command. If it may change the work tree, notice whether anything has changed."""
        try:
            done = await self._run_in_shell(
                command,
                timeout_s=timeout_s,
                mode=mode,
                keep_bytes=keep_bytes,
                stdin=stdin,
                stamp=self._unchanged_since if may_change else "",
            )
        except asyncio.CancelledError:
            if self._shell.gone:
                await self.close()
            raise
        if may_change and done.changed:
            self._unchanged_since = ""
        return done

    async def _run_in_shell(self, command: str, **options: Any) -> FinishedCommand:
        """Run a command. Something that an earlier one left behind may have killed the shell."""
        try:
            return await self._shell.run(command, **options)
        except ShellEnded as ended:
            if ended.so_far is not None:
                raise
        await self._replace()
        return await self._shell.run(command, **options)

    async def _replace(self) -> None:
        """Replace a shell that has ended."""
        async with self._replacing:
            if self._shell.has_ended:
                self._shell = await self._revive()

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._root}/{path}"

    def _expect_success(self, done: FinishedCommand, failure: str) -> None:
        if done.exit_code:
            raise OSError(f"{failure}: {done.text.strip() or f'exit {done.exit_code}'}")


def _relative_to(root: bytes, targets: Sequence[bytes]) -> list[str | None]:
    """Return paths relative to the root, or None for those outside."""
    top = PurePosixPath(root.decode(errors="surrogateescape"))
    paths = [PurePosixPath(target.decode(errors="surrogateescape")) for target in targets]
    return [str(path.relative_to(top)) if path.is_relative_to(top) else None for path in paths]


def _parse_found(target: str | None, line: str, path: str) -> Found:
    """Parse the line of `look_up` about a path."""
    if not line.startswith("="):
        return Found(target)
    if line.endswith("!"):
        return Found(target, problem=f"cannot read {path}: permission denied")
    content = base64.b64decode(line[1:])
    if len(content) > MAX_FILE_BYTES:
        return Found(target, problem=_TOO_LARGE.format(path))
    return Found(target, content)
