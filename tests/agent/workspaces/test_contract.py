"""Guarantees of every kind of workspace to an arm."""

import asyncio
import resource
import shlex
import time

import pytest

from agent.errors import WorkspaceError
from agent.workspaces import Found, Workspace, shell
from tests.agent.commands import run


async def alive(workspace: Workspace, what: str) -> bool:
    """Return True if a process with `what` among its arguments exists."""
    found = await run(
        workspace, f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c {what}"
    )
    return found.output.strip() != "0"


ENDINGS: list[tuple[str, int, str]] = [
    ("echo hello", 0, "hello\n"),
    ("printf 'no newline'", 0, "no newline"),
    ("printf '\\n\\n'", 0, "\n\n"),
    ("true", 0, ""),
    ("exit 7", 7, ""),
    ("false", 1, ""),
    ("set -e; false; echo unreached", 1, ""),
    ("exec printf replaced", 0, "replaced"),
    ("trap 'echo bye' EXIT; exit 3", 3, "bye\n"),
    ("echo out; echo err >&2", 0, "out\nerr\n"),
    ("cat <<'END'\n$HOME `x`\nEND", 0, "$HOME `x`\n"),
    ("echo $0 $#", 0, "bash 0\n"),
    ("kill -KILL $$", 137, ""),
    ("exit 124", 124, ""),
    ("exit 137", 137, ""),
    ("printf 'grüße 世界 🎉'", 0, "grüße 世界 🎉"),
    ("printf '\\377\\376ok'", 0, "\ufffd\ufffdok"),
    ("printf 'a\\0b'", 0, "a\0b"),
]


async def test_a_command_gives_its_output_and_exit_status(workspace: Workspace) -> None:
    """Output is exact and includes standard error, and the exit status is the command's own."""
    for command, exit_code, output in ENDINGS:
        result = await run(workspace, command)
        assert (result.exit_code, result.output, result.timed_out) == (exit_code, output, False)
        assert not result.truncated
    result = await run(workspace, "if then fi (")
    assert result.exit_code in (1, 2)
    assert "syntax error" in result.output


async def test_standard_input_is_closed(workspace: Workspace) -> None:
    """A command that reads standard input gets the end of file at once."""
    result = await run(workspace, "cat; read -r line; echo $?; python3 -c 'input()' 2>&1 | tail -1")
    assert result.output.splitlines()[0] == "1"
    assert "EOFError" in result.output


async def test_a_command_holds_no_descriptor_of_the_shell(workspace: Workspace) -> None:
    """A command has only the three standard descriptors open, not the shell's request stream."""
    result = await run(
        workspace, "for fd in /proc/self/fd/*; do readlink $fd; done; ls /proc/self/fd"
    )
    assert result.output.split()[-4:] == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


async def test_the_timeout_ends_children_and_grandchildren(workspace: Workspace) -> None:
    """No process of the command survives, and the result is marked as timed out with status 124."""
    command = (
        "trap '' TERM INT HUP; echo started; (bash -c 'sleep 4321 & wait' & wait) & "
        "setsid sleep 4321 & sleep 4321"
    )
    result = await run(workspace, command, timeout_s=0.5)
    assert result.duration_s < 3
    assert (result.exit_code, result.timed_out, result.output) == (124, True, "started\n")
    assert not await alive(workspace, "sleep.432[1]")


async def test_a_background_process_ends_with_its_command(workspace: Workspace) -> None:
    """The command returns at once, and processes that it left, even daemons, are killed."""
    for start in (
        "sleep 5432 &",
        "nohup sleep 5432 >/dev/null &",
        "setsid -f sleep 5432",
        "(set -m; sleep 5432 &)",
    ):
        result = await run(workspace, f"{start}\necho done")
        assert result.duration_s < 3
        assert result.output.endswith("done\n")
        assert not await alive(workspace, "sleep.543[2]")


async def test_a_flood_is_kept_as_head_and_tail(workspace: Workspace) -> None:
    """200 MB of output take bounded memory, keep both ends and state how much is left out."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    command = "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last"
    result = await workspace.run(command, timeout_s=60, max_output_bytes=2000)
    assert time.monotonic() - start < 30
    assert result.truncated
    assert result.output_bytes == 200_000_000 + len("first\n\nlast\n")
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")
    assert f"\n[... {result.output_bytes - 2000} bytes left out ...]\n" in result.output
    assert len(result.output) < 2100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


async def test_output_cannot_forge_the_end(workspace: Workspace) -> None:
    """Text that looks like the shell's framing is returned as output."""
    forged = "\n0123456789abcdef0123456789abcdef end 0 0\n"
    result = await run(workspace, f"printf '{forged}'; env; exit 9")
    assert result.exit_code == 9
    assert result.output.startswith(forged)


async def test_a_command_can_be_very_long(workspace: Workspace) -> None:
    """A command of two megabytes, sixteen times the limit for one argument, runs."""
    result = await run(workspace, f"text='{'x' * 2_000_000}'; echo ${{#text}}")
    assert result.output == "2000000\n"


async def test_commands_at_once_wait_for_each_other(workspace: Workspace) -> None:
    """Concurrent callers get their own output, one after another."""
    results = await asyncio.gather(*(run(workspace, f"echo {n}; sleep 0.05") for n in range(8)))
    assert [result.output for result in results] == [f"{n}\n" for n in range(8)]


async def test_killing_the_parent_ends_only_the_command(workspace: Workspace) -> None:
    """A command may kill the process that waits for it. The next command still runs."""
    result = await run(workspace, "kill -KILL $PPID; sleep 100")
    assert result.exit_code == 137
    assert not result.timed_out
    assert (await run(workspace, "echo fine")).output == "fine\n"


SERVER = "$(awk '/^PPid/ {print $2}' /proc/$PPID/status)"


@pytest.mark.parametrize(
    "command",
    [
        f"kill -KILL {SERVER}",
        f"kill -KILL {SERVER}; sleep 6789",
        f"kill -STOP {SERVER}",
        f"setsid sleep 6789 & kill -KILL {SERVER} $PPID $$",
    ],
)
async def test_killing_the_server_is_a_result(
    workspace: Workspace, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that kills or stops its shell has a result that says so, and the next one runs."""
    monkeypatch.setattr(shell, "GRACE_S", 1.0)
    result = await run(workspace, f"echo new >new.txt; echo before; {command}", timeout_s=2)
    assert result.exit_code == (124 if result.timed_out else 137)
    assert result.output.startswith("before\n")
    assert "The shell was killed" in result.output
    assert (await run(workspace, "cat new.txt; pwd")).output == f"new\n{workspace.root}\n"
    assert [change.path for change in await workspace.changes()] == ["new.txt"]
    assert not await alive(workspace, "sleep.678[9]")


async def test_text_that_is_not_a_command_has_a_result(workspace: Workspace) -> None:
    """Text that bash cannot take is refused as bash refuses a file that it cannot execute."""
    for command in ("echo \0", "echo \ud800", "\0" * 70_000):
        result = await run(workspace, command)
        assert (result.exit_code, result.timed_out) == (126, False)
        assert "NUL characters" in result.output
        assert (await run(workspace, "echo fine")).output == "fine\n"


async def test_a_cancelled_command_ends_and_closes_the_workspace(workspace: Workspace) -> None:
    """Cancelling is quick whatever the command's timeout, and makes the workspace unusable."""
    task = asyncio.create_task(run(workspace, "sleep 6543", timeout_s=600))
    await asyncio.sleep(0.3)
    start = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - start < 5
    with pytest.raises(WorkspaceError, match="cancelled"):
        await run(workspace, "true")
    await workspace.close()


async def test_a_cancelled_wait_for_the_shell_harms_nothing(workspace: Workspace) -> None:
    """Cancelling a call that waits for the shell does not affect the running command."""
    running = asyncio.create_task(run(workspace, "sleep 0.5; echo ran"))
    await asyncio.sleep(0.1)
    waiting = asyncio.create_task(run(workspace, "echo never"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    assert (await running).output == "ran\n"
    assert (await run(workspace, "echo fine")).output == "fine\n"


CONTENTS = (bytes(range(256)) * 40_000, bytes(range(256)), b"no end", b"\r\n", b"\n\n", b"")


async def test_files_come_back_as_they_were_written(workspace: Workspace) -> None:
    """Files with any bytes, of any length and in new folders, are read back unchanged."""
    path = "new folder/it's $HOME/ünï \n.bin"
    for content in CONTENTS:
        await workspace.write(path, content)
        assert await workspace.read(path) == content
        assert await workspace.read(f"{workspace.root}/{path}") == content
        await run(workspace, f"chmod 755 {shlex.quote(path)}")
    assert (await run(workspace, f"stat -c %a {shlex.quote(path)}")).output == "755\n"


async def test_a_missing_file_is_not_found(workspace: Workspace) -> None:
    """A missing file, a folder or a device raises FileNotFoundError with the path."""
    for path in ("nowhere.txt", "pkg", "text.txt/below", "/dev/zero"):
        with pytest.raises(FileNotFoundError, match=path):
            await workspace.read(path)


async def test_a_failed_write_says_why(workspace: Workspace) -> None:
    """Writing to a folder raises OSError with the shell's message, and the shell still works."""
    with pytest.raises(OSError, match=r"cannot write pkg: .*directory"):
        await workspace.write("pkg", b"x" * 5_000_000)
    with pytest.raises(OSError, match=r"cannot write text\.txt/below"):
        await workspace.write("text.txt/below", b"x")
    assert (await run(workspace, "echo fine")).output == "fine\n"


async def test_a_file_that_is_too_large_is_not_read(workspace: Workspace) -> None:
    """A sparse file of a terabyte is refused without being read."""
    await run(workspace, "truncate -s 1T huge.log")
    with pytest.raises(OSError, match="larger than"):
        await workspace.read("huge.log")
    [found] = await workspace.look_up(["huge.log"])
    assert "larger than" in found.problem


async def test_paths_lead_to_files(workspace: Workspace) -> None:
    """Links are followed inside the root. Nothing outside is read."""
    await run(workspace, "ln -s pkg also; ln -s /etc/passwd out; printf 'no end' >'a b'; : >empty")
    paths = ["a b", "also/deep/mod.py", "out", "/etc/passwd", "pkg", "nowhere/at all", "empty", "."]
    assert await workspace.look_up(paths) == [
        Found("a b", b"no end"),
        Found("pkg/deep/mod.py", b"x = 1\n"),
        Found(None),
        Found(None),
        Found("pkg"),
        Found("nowhere/at all"),
        Found("empty", b""),
        Found("."),
    ]
    with pytest.raises(OSError, match="cannot resolve"):
        await workspace.look_up(["a b", ""])
