"""Host workspaces: a clean environment and a temporary folder, without isolation."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import HostWorkspace, host
from tests.agent.commands import sh
from tests.agent.repositories import with_files
from tests.agent.workspaces.conftest import make_repository
from tests.waiting import until


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is used for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())


prepare = with_files({"text.txt": "here\n"})


async def opened(**labels: str) -> HostWorkspace:
    return await HostWorkspace.open(prepare=prepare, base_commit="HEAD", labels=labels)


@pytest.fixture
async def workspace(temporary: Path) -> AsyncIterator[HostWorkspace]:
    workspace = await opened()
    yield workspace
    await workspace.close()


async def test_only_a_clean_environment_is_passed_on(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands see a fixed set of variables and no keys of the host."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-agents")
    monkeypatch.setenv("BASH_ENV", "/nowhere")
    workspace = await opened()
    text = await sh(workspace, "env | cut -d= -f1 | sort")
    assert "sk-not-for-agents" not in await sh(workspace, "env; cat /proc/$PPID/environ")
    await workspace.close()
    own = {"HOME", "LANG", "PATH", "TMPDIR", "WORKSPACE_MARK"}
    quiet = {"GIT_PAGER", "LESS", "MANPAGER", "PAGER", "PIP_PROGRESS_BAR", "TQDM_DISABLE"}
    own |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD", "GIT_OPTIONAL_LOCKS"}
    of_bash = {"OLDPWD", "PWD", "SHLVL", "_"}
    assert set(text.split()) - of_bash == own | quiet


async def test_the_first_git_status_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git would write the index of a new work tree again, and the next look would take longer."""
    workspace = await HostWorkspace.open(prepare=make_repository, base_commit="base")
    tree = await workspace.tree()
    index = Path(workspace.root) / ".git" / "index"
    written = index.stat().st_mtime_ns
    await sh(workspace, "git status --short")
    assert index.stat().st_mtime_ns == written
    monkeypatch.setattr(workspace, "_git", None)
    assert await workspace.tree() == tree
    await workspace.close()


async def test_the_running_interpreter_is_first(workspace: HostWorkspace) -> None:
    """`python` is the interpreter of this program, whatever /etc/profile does to PATH."""
    where = await sh(workspace, "type -p python python3; echo $PATH")
    folder = str(Path(sys.executable).parent)
    assert where.splitlines()[:2] == [f"{folder}/python", f"{folder}/python3"]
    assert where.splitlines()[2].startswith(f"{folder}:")


async def test_closing_leaves_no_file(temporary: Path) -> None:
    """Closing removes read-only files and folders as well."""
    workspace = await opened()
    await sh(workspace, "mkdir -p a/b; touch a/b/c; chmod 400 a/b/c; chmod 500 a/b; chmod 0 a")
    await workspace.close()
    assert entries(temporary) == []


async def test_closing_ends_a_running_command(temporary: Path) -> None:
    """Closing fails the running command and ends its background processes too."""
    workspace = await opened()
    command = "echo $$ >../pids; setsid -f sh -c 'echo $$ >>../pids; sleep 7654'; sleep 7654"
    running = asyncio.create_task(workspace.run(command, timeout_s=600))
    pids = await until(lambda: _two_pids(Path(workspace.root).parent / "pids"), seconds=5)
    await workspace.close()
    with pytest.raises(WorkspaceError):
        await running
    await until(lambda: not any(map(_runs, pids)), seconds=5)


async def test_closing_kills_no_process_that_has_the_id_of_the_ended_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system gives the id to another process once the server has ended."""
    workspace = await opened()
    server = workspace._folder._server
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: killed.append(group))
    await workspace.close()
    assert killed == []


def _two_pids(file: Path) -> list[int]:
    words = file.read_text().split() if file.exists() else []
    return [int(word) for word in words] if len(words) == 2 else []


def _runs(pid: int) -> bool:
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


async def test_an_error_in_prepare_is_passed_on_and_leaves_nothing(temporary: Path) -> None:
    """An error in `prepare` is passed on, and the folder is removed."""

    def broken(path: Path) -> None:
        path.mkdir()
        (path / "half").touch()
        raise LookupError("no such commit")

    with pytest.raises(LookupError, match="no such commit"):
        await HostWorkspace.open(prepare=broken, base_commit="HEAD")
    assert entries(temporary) == []


async def test_a_cancelled_opening_leaves_nothing(temporary: Path) -> None:
    """An opening that is cancelled during `prepare` waits for it to end and removes the folder."""

    def slow(path: Path) -> None:
        path.mkdir()
        time.sleep(0.3)
        (path / "late").touch()

    task = asyncio.create_task(HostWorkspace.open(prepare=slow, base_commit="HEAD"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert entries(temporary) == []


async def test_workspaces_do_not_end_each_others_processes(temporary: Path) -> None:
    """The end of a command in one workspace kills no process in another."""
    first, second = await opened(), await opened()
    running = asyncio.create_task(first.run("sleep 1; echo whole", timeout_s=20))
    await asyncio.sleep(0.3)
    await sh(second, "true")
    await second.close()
    assert (await running).output == "whole\n"
    await first.close()


async def test_a_folder_that_a_concurrent_cleanup_removes_is_created_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a cleanup removes a folder while it is being reused, it is created again."""
    path = Path(HostWorkspace.root_of("attempt")).parent
    path.mkdir()
    real = host.read_labels

    def swept(folder: Path) -> dict[str, str]:
        if folder == path and not (folder / host.LABELS_FILE).exists():
            shutil.rmtree(folder)
        return real(folder)

    with monkeypatch.context() as patched:
        patched.setattr(host, "read_labels", swept)
        workspace = await HostWorkspace.open(prepare=prepare, base_commit="HEAD", name="attempt")
    assert await sh(workspace, "cat text.txt") == "here\n"
    await workspace.close()


@pytest.mark.usefixtures("temporary")
async def test_a_worker_that_lost_the_attempt_may_open_the_same_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its folder appears after the leftovers were removed. The later worker gets its own."""
    real, made = host.discard, list[Path]()

    def discard_and_lose(folder: Path) -> None:
        try:
            real(folder)
        finally:
            if not made:
                folder.mkdir()
                made.append(folder)

    monkeypatch.setattr(host, "discard", discard_and_lose)
    workspace = await HostWorkspace.open(prepare=prepare, base_commit="HEAD", name="attempt")
    assert len(made) == 1
    assert await sh(workspace, "cat text.txt") == "here\n"
    await workspace.close()


async def test_without_bash_the_error_is_clear(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error asks for bash to be installed."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(WorkspaceError, match="need bash") as caught:
        await HostWorkspace.open(prepare=Path.mkdir, base_commit="HEAD")
    assert not caught.value.retryable
    assert entries(temporary) == []


@pytest.fixture
def in_background() -> Iterator[None]:
    """Ignore interrupts, as the background processes of a shell do."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_background")
async def test_commands_of_a_background_process_heed_interrupts(temporary: Path) -> None:
    """An interrupt ends a command, although the process that opened the workspace ignores it."""
    workspace = await opened()
    assert await sh(workspace, "sh -c 'kill -INT $$; echo ignored'; echo $?") == "130\n"
    await workspace.close()
