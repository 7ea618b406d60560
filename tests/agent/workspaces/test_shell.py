"""The framing and the limits of a shell, against scripted and real servers."""

import asyncio
import random
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import WorkspaceError
from agent.workspaces import shell as shell_module
from agent.workspaces.host import allow_interrupts
from agent.workspaces.shell import Shell, server_command


class ScriptedServer:
    """Both streams of a shell, which answers each request with `answer(token)`."""

    def __init__(self, answer: Callable[[bytes], bytes], cuts: list[int] | None = None) -> None:
        self._answer = answer
        self._cuts = iter(cuts or [])
        self._out = b""
        self.requests: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.requests.append(data)
        self._out += self._answer(data.split(b" ")[0])

    async def drain(self) -> None:
        return None

    async def read(self, limit: int) -> bytes:
        size = next(self._cuts, limit)
        piece, self._out = self._out[:size], self._out[size:]
        return piece


def replying(output: bytes, ending: bytes = b"0 0 1 0 0") -> Callable[[bytes], bytes]:
    return lambda token: token + b" begin\n" + output + b"\n" + token + b" end " + ending + b"\n"


def scripted(server: ScriptedServer) -> Shell:
    return Shell(server, server, name="the test")


@given(output=st.binary(max_size=300), cuts=st.lists(st.integers(1, 40)), keep=st.integers(0, 400))
async def test_output_is_the_same_however_the_stream_is_cut(
    output: bytes, cuts: list[int], keep: int
) -> None:
    """Marks are found across reads, head and tail are the two ends, and every byte is counted."""
    shell = scripted(ScriptedServer(replying(output, b"3 1 1 0 0"), cuts))
    done = await shell.run("any", timeout_s=5, keep_bytes=keep)
    assert (done.exit_code, done.timed_out, done.output_bytes) == (3, True, len(output))
    if len(output) <= keep:
        assert done.head + done.tail == output
        assert not done.left_out
    else:
        assert len(done.head) + len(done.tail) == keep
        assert output.startswith(done.head)
        assert output.endswith(done.tail)
        assert done.left_out == len(output) - keep


async def test_output_between_commands_is_dropped() -> None:
    """Late output of a dying process belongs to no command."""
    server = ScriptedServer(lambda token: b"late\n" + replying(b"mine")(token) + b"later")
    shell = scripted(server)
    assert (await shell.run("any", timeout_s=5)).text == "mine"
    assert (await shell.run("any", timeout_s=5)).text == "mine"


async def test_the_end_of_the_stream_reports_the_last_output() -> None:
    """The error, which later commands repeat, has the shell's name and its last output."""
    shell = scripted(ScriptedServer(lambda token: token + b" begin\nbash: out of memory\n"))
    with pytest.raises(WorkspaceError, match=r"the test ended.*out of memory.*again") as caught:
        await shell.run("any", timeout_s=5)
    assert caught.value.retryable
    with pytest.raises(WorkspaceError, match="the test ended"):
        await shell.run("any", timeout_s=5)


async def test_a_server_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the server stays silent past the timeout and a grace period, the shell raises an error."""
    monkeypatch.setattr(shell_module, "GRACE_S", 0.05)

    class Silent(ScriptedServer):
        async def read(self, limit: int) -> bytes:
            await asyncio.Event().wait()
            return b""

    shell = scripted(Silent(replying(b"")))
    with pytest.raises(WorkspaceError, match="did not end"):
        await shell.run("any", timeout_s=0.05)
    assert shell.gone


@asynccontextmanager
async def real_server(root: Path) -> AsyncIterator[Shell]:
    """Run a shell on this machine without anything that a workspace adds."""
    process = await asyncio.create_subprocess_exec(
        *server_command(str(root), f"test-{random.getrandbits(64):016x}"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={"PATH": "/opt/own tools/bin:/usr/bin:/bin", "HOME": str(root)},
        start_new_session=True,
        preexec_fn=allow_interrupts(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield Shell(process.stdout, process.stdin, name="the test")
    process.stdin.close()
    await asyncio.wait_for(process.communicate(), 10)


async def test_the_server_ends_with_its_input(tmp_path: Path) -> None:
    """Closing the request stream ends an idle server."""
    async with real_server(tmp_path) as shell:
        await shell.greet()


async def test_standard_input_arrives_and_need_not_be_read(tmp_path: Path) -> None:
    """Input reaches the command, and unread input is not taken for the next request."""
    async with real_server(tmp_path) as shell:
        done = await shell.run("cat", timeout_s=5, mode="plain", stdin="given\n" * 50_000)
        assert done.text == "given\n" * 50_000
        done = await shell.run("exit 4", timeout_s=5, mode="plain", stdin="x" * 1_000_000)
        assert done.exit_code == 4
        assert (await shell.run("echo fine", timeout_s=5)).text == "fine\n"


async def test_changes_since_a_stamp_are_seen(tmp_path: Path) -> None:
    """A change after the stamp is seen in files, folders and git's index, even if a file's time was
    set back. Without a readable stamp, everything counts as changed."""
    root = tmp_path / "root"
    root.mkdir()
    async with real_server(root) as shell:

        async def changed(command: str, stamp: str) -> bool:
            done = await shell.run(command, timeout_s=5, mode="plain", stamp=stamp)
            return done.changed

        async def settle() -> str:
            done = await shell.run("sleep 0.02; date +%s.%N; sleep 0.02", timeout_s=5)
            return done.text.strip()

        await shell.run("mkdir -p .git sub && touch .git/index sub/file", timeout_s=5)
        assert await changed(":", "yesterday?"), "that is no time"
        stamp = await settle()
        assert not await changed("cat sub/file && touch .git/other", stamp)
        assert await changed(":", "")
        for command in (
            "echo more >> sub/file && touch -d 2001-01-01 sub/file",
            "rm sub/file",
            "mkdir sub/empty",
            "touch .git/index",
        ):
            assert await changed(command, stamp)
            assert await changed(":", stamp), "until the next stamp"
            stamp = await settle()
            assert not await changed(":", stamp)


@pytest.mark.slow
async def test_no_change_is_never_seen_as_one(tmp_path: Path) -> None:
    """Once in a thousand times on a busy machine, bash gave the wrong exit status of `find`."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").touch()
    async with real_server(tmp_path) as shell:
        stamp = (await shell.run("sleep 0.02; date +%s.%N", timeout_s=5)).text.strip()
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
        try:
            answers = [
                await shell.run(":", timeout_s=5, mode="plain", stamp=stamp) for _ in range(1000)
            ]
        finally:
            for process in busy:
                process.kill()
                process.wait()
    assert not any(answer.changed for answer in answers)


async def test_a_script_leaves_nothing_in_the_server(tmp_path: Path) -> None:
    """Scripts of the harness run in a copy of the server, which they cannot change."""
    async with real_server(tmp_path) as shell:
        script = "root=/ mode=login; run() { :; }; cd /; unset PATH; trap : EXIT; exec >&-; exit 3"
        done = await shell.run(script, timeout_s=5, mode="plain")
        assert done.exit_code == 3
        done = await shell.run("pwd; echo $mode; cat /dev/null", timeout_s=5, mode="plain")
        assert (done.exit_code, done.text) == (0, f"{tmp_path}\nplain\n")


async def test_a_command_can_be_interrupted(tmp_path: Path) -> None:
    """Commands do not ignore SIGINT, as a shell's background jobs would."""
    async with real_server(tmp_path) as shell:
        done = await shell.run("grep SigIgn /proc/self/status", timeout_s=5, mode="plain")
        assert int(done.text.split()[1], 16) & 0b110 == 0


async def test_a_profile_adds_to_the_path_and_takes_nothing_away(tmp_path: Path) -> None:
    """Folders that a login profile adds to PATH come first, and the others keep their order."""
    (tmp_path / ".bash_profile").write_text("export PATH=/env/bin:/usr/bin:/bin\n")
    async with real_server(tmp_path) as shell:
        done = await shell.run("echo $PATH; type restore_path", timeout_s=5)
        assert done.text.splitlines()[0] == "/env/bin:/opt/own tools/bin:/usr/bin:/bin"
        assert "not found" in done.text


async def test_a_missing_root_is_reported_at_the_start(tmp_path: Path) -> None:
    """If the root is missing, the server does not run commands elsewhere."""
    async with real_server(tmp_path / "nowhere") as shell:
        with pytest.raises(WorkspaceError, match="No such file or directory"):
            await shell.greet()


async def test_the_token_is_nowhere_a_command_would_look(tmp_path: Path) -> None:
    """The token is in no environment, argument or open file of any process of the shell."""
    look = "cat /proc/$PPID/{environ,cmdline} /proc/self/{environ,cmdline} | tr '\\0' '\\n'"
    async with real_server(tmp_path) as shell:
        sent: list[bytes] = []
        write = shell._writer.write
        shell._writer.write = lambda data: (sent.append(data), write(data))[1]  # type: ignore
        seen = await shell.run(look, timeout_s=5)
        assert sent[0].split(b" ")[0].decode() not in seen.text
        assert "WORKSPACE_MARK" in seen.text
