"""A workspace in a temporary folder on this machine. It isolates nothing."""

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from agent.errors import WorkspaceError
from agent.workspaces import apart, ownership
from agent.workspaces.ownership import complete
from agent.workspaces.repository import PAGERS_OFF, Workspace
from agent.workspaces.shell import Output, Shell, server_command

PREFIX = "durabench-"
LABELS_FILE = "labels.json"
MARK = "durabench.mark"
"""The label with the mark that a folder's processes have in their environment."""

_REPOSITORY = "repo"
_STREAM_BYTES = 2**20
_END_TIMEOUT_S = 5.0
_KILL_ROUNDS = 100
_INTERRUPTS = (signal.SIGINT, signal.SIGQUIT)


def make_empty_repository(folder: Path) -> None:
    """Make a folder a git repository with an empty commit."""
    who = ["-c", "user.name=durabench", "-c", "user.email=durabench@localhost"]
    subprocess.run(["git", "init", "-q", folder], check=True)
    commit = ["commit", "-qm", "Empty", "--allow-empty"]
    subprocess.run(["git", "-C", folder, *who, *commit], check=True)


class HostWorkspace(Workspace):
    """A private folder `durabench-...` with the repository in `repo`.

    Commands run as the user who runs this program and can do whatever that user can: read and write
    every file, reach the network, use all memory. Only the environment is clean. It has its own
    home folder, the interpreter that runs this program first on PATH, and none of the host's other
    variables. Use it for code that you would run yourself.
    """

    environment = "host"

    def __init__(self, folder: "_Folder", shell: Shell, *, base_commit: str) -> None:
        """Use `open` instead."""
        super().__init__(
            shell,
            root=str(folder.repository),
            base_commit=base_commit,
            scratch=str(folder.path / "git"),
        )
        self._folder = folder

    @classmethod
    async def open(
        cls,
        *,
        prepare: Callable[[Path], None],
        base_commit: str,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Create the folder and let `prepare` put the repository at the given path.

        The same `name` gets the same path, so that an attempt can resume in another process. An
        existing folder of that name is removed first, including its running programs, and its
        previous owner loses it. Only the holder of an attempt's lease may therefore use the
        attempt's name. `prepare` is called in a thread with a path that does not exist yet, and its
        errors are passed on. `labels` are written to `labels.json` to identify the folder.

        Raises:
            WorkspaceError: bash or setsid is missing, or the folder does not fit.
        """
        folder = await complete(asyncio.to_thread(_Folder, dict(labels or {}), name))
        try:
            await complete(asyncio.to_thread(prepare, folder.repository))
            workspace = cls(folder, await folder.start_shell(), base_commit=base_commit)
            await workspace._begin("the folder", os.environ.get("PATH", ""))
        except BaseException:
            await complete(folder.close())
            raise
        return workspace

    @staticmethod
    def root_of(name: str) -> str:
        """Return the location of the repository in the workspace of that name, open or not."""
        return str(_path_of(name) / _REPOSITORY)

    async def snapshot(self) -> None:
        """Do nothing, because a folder cannot be saved as an image."""

    @contextlib.asynccontextmanager
    async def _python(self, program: str) -> AsyncIterator[apart.Process]:
        python = shutil.which("python", path=_search_path())
        if python is None:
            raise apart.NoPython("python: command not found")
        yield await self._folder.start_program([python, *apart.OPTIONS, "-c", program])

    async def _revive(self) -> Shell:
        return await self._folder.restart_shell()

    async def close(self) -> None:
        """Kill every process that was started in the workspace, and remove the folder."""
        await complete(self._folder.close())


class _Folder:
    """The life of one folder and of the processes that work in it."""

    def __init__(self, labels: dict[str, str], name: str | None) -> None:
        self._mark = f"{PREFIX}{secrets.token_hex(8)}"
        labels = {**ownership.labels(labels), MARK: self._mark}
        prefix = f"{PREFIX}{os.getpid()}-"
        try:
            self.path = (
                _take_over(_path_of(name)) if name else Path(tempfile.mkdtemp(prefix=prefix))
            ).resolve()
            self.repository = self.path / _REPOSITORY
            (self.path / LABELS_FILE).write_text(json.dumps(labels), encoding="utf-8")
            (self.path / "tmp").mkdir()
            (self.path / "home").mkdir()
            profile = (
                f"export PATH={shlex.quote(_search_path())}\n"  # Debian's /etc/profile sets it
            )
            (self.path / "home/.bash_profile").write_text(profile, encoding="utf-8")
        except OSError as error:
            raise WorkspaceError(
                f"no folder for a workspace: {error}; make room or set TMPDIR"
            ) from error
        self._server: Process | None = None
        self._closed = False

    async def start_shell(self) -> Shell:
        """Start the command server and wait until it responds."""
        command = server_command(str(self.repository), self._mark)
        try:
            self._server = server = await self._start(command, self.path, DEVNULL, mark="")
        except FileNotFoundError as error:
            if not self.path.exists():
                raise WorkspaceError(f"folder {self.path} is gone") from error
            raise WorkspaceError(
                "host workspaces need bash; install it", retryable=False
            ) from error
        assert server.stdin is not None
        assert server.stdout is not None
        shell = Shell(server.stdout, server.stdin, name=f"folder {self.path}")
        await shell.greet()
        return shell

    async def start_program(self, command: Sequence[str]) -> "_Program":
        """Start a program in the repository."""
        return _Program(await self._start(command, self.repository, STDOUT, mark=self._mark))

    async def _start(
        self, command: Sequence[str], folder: Path, stderr: int, *, mark: str
    ) -> Process:
        environment = {
            **PAGERS_OFF,
            "PATH": _search_path(),
            "HOME": str(self.path / "home"),
            "TMPDIR": str(self.path / "tmp"),
            "LANG": "C.UTF-8",
            # `git status` would write the index of a new work tree, which counts as a change of it.
            "GIT_OPTIONAL_LOCKS": "0",
            # The plugins installed with this program do not belong to the repository.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            env={**environment, "WORKSPACE_MARK": mark} if mark else environment,
            cwd=folder,
            start_new_session=True,
            limit=_STREAM_BYTES,
            preexec_fn=allow_interrupts(),
        )

    async def restart_shell(self) -> Shell:
        """End all processes that were started here, and start another command server.

        Raises:
            WorkspaceError: the folder is closed, or another workspace has replaced it.
        """
        if self._closed or self._server is None:
            raise WorkspaceError(f"folder {self.path} is closed")
        await complete(self._end(self._server))
        self._check_owned()
        shell = await self.start_shell()
        self._check_owned()
        return shell

    def _check_owned(self) -> None:
        if not self._is_owned():
            raise WorkspaceError(f"the workspace in {self.path} ended: another one has replaced it")

    def _is_owned(self) -> bool:
        return read_labels(self.path).get(MARK) == self._mark

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._server is not None:
            await self._end(self._server)
        if self._is_owned():  # otherwise a successor owns it now
            await asyncio.to_thread(_remove, self.path)

    async def _end(self, server: Process) -> None:
        if server.returncode is None:  # otherwise another process may have its id by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
        await asyncio.to_thread(_kill_marked, self._mark)
        # Read the rest, so that the pipes close while the loop still exists. If another task still
        # waits for a command, that task reads to the end itself.
        with contextlib.suppress(TimeoutError, RuntimeError):
            await asyncio.wait_for(server.communicate(), _END_TIMEOUT_S)


class _Program:
    """A Python program on this machine."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def talk(self, stdin: bytes, output: Output) -> int:
        """Send the program its input, and add what it prints to `output`. Return its exit code."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            await apart.exchange(process.stdout, process.stdin, stdin, output)
            exit_code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return exit_code if exit_code >= 0 else 128 - exit_code


def _path_of(name: str) -> Path:
    return Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{os.getuid()}-{name}"


def _take_over(path: Path) -> Path:
    """Create a folder in place of an abandoned one."""
    while True:
        with contextlib.suppress(FileNotFoundError):  # nothing is left of it, or a sweep was faster
            discard(path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:  # of a worker that has lost the attempt and has not noticed yet
            continue
        return path


def read_labels(folder: Path) -> dict[str, str]:
    """Return the content of `labels.json`, or an empty dict."""
    try:
        return dict(json.loads((folder / LABELS_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def discard(folder: Path) -> None:
    """End the processes in an abandoned folder, and remove it; blocking.

    The folder is moved first, so that its previous owner does not remove its successor.
    """
    labels = read_labels(folder)
    away = folder.with_name(f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
    folder.rename(away)
    if mark := labels.get(MARK):
        _kill_marked(mark)
    _remove(away)


def _kill_marked(mark: str) -> None:
    """Kill the command server of that mark, all commands and the processes that they started."""
    for _ in range(_KILL_ROUNDS):
        were_killed = False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # the process has ended or is another user's
                environment, arguments = process.environ(), process.cmdline()
                # Commands have the mark in their environment, the server as its last argument.
                if environment.get("WORKSPACE_MARK") == mark or arguments[-1:] == [mark]:
                    were_killed = True
                    process.kill()
        if not were_killed:
            return


def _search_path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def allow_interrupts() -> Callable[[], None] | None:
    """Return a function for a new process to heed interrupts, or None if it does so anyway.

    Background processes of a shell ignore interrupts, and all commands would inherit that. A
    process with such a function is forked with all memory of this one, which is slow.
    """
    ignored = [number for number in _INTERRUPTS if signal.getsignal(number) is signal.SIG_IGN]

    def restore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)

    return restore if ignored else None


def _remove(folder: Path) -> None:
    """Remove a folder, including parts that commands made read-only.

    The labels are removed last, so that a sweep still recognises a half-removed folder. `rm` lets
    the workspaces of an attempt end at the same time, which Python's own functions do not.
    """
    with contextlib.suppress(OSError):  # another sweep may have been faster
        parts = [part for part in folder.iterdir() if part.name != LABELS_FILE]
        if subprocess.run(["rm", "-rf", "--", *parts], stderr=subprocess.DEVNULL).returncode:
            for parent, names, _ in os.walk(folder):  # each is made accessible before it is entered
                for path in (Path(parent, name) for name in names):
                    if not path.is_symlink():
                        with contextlib.suppress(OSError):  # of another user
                            path.chmod(0o700)
            for part in parts:
                shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
