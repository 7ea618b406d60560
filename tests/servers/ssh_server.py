"""An SSH server on loopback, whose only accepted key is in an agent and in no file.

with SshServer(folder) as server, server.agent() as variables:
    f"{server.url}/path/of/a/repository"
"""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv SHLVL=2
"""
"""With this `SHLVL`, bash does not read the user's .bashrc, which may take minutes."""

_CLIENT = """\
UserKnownHostsFile {folder}/known
IdentityFile none
"""

_READY_S = 20


class SshServer:
    """A real sshd, for the user who runs this program."""

    def __init__(self, folder: Path) -> None:
        """Make the keys, or skip the test if there is no sshd."""
        self._program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        self._client = shutil.which("ssh")
        if self._program is None or self._client is None:
            pytest.skip("there is no sshd on this machine")
        self._folder = folder
        folder.mkdir()
        for name in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        host = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{self._port} {host}")
        (folder / "sshd").write_text(_SERVER.format(folder=folder, port=self._port))
        (folder / "client").write_text(_CLIENT.format(folder=folder))
        self.url = f"ssh://{getpass.getuser()}@127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd of root does not start without it
        assert self._program is not None
        command = [self._program, "-D", "-e", "-f", str(self._folder / "sshd")]
        with (self._folder / "log").open("w") as log:
            self._running = subprocess.Popen(command, stderr=log, stdout=log)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.terminate()
        self._running.wait()

    @contextmanager
    def agent(self) -> Iterator[dict[str, str]]:
        """Yield the variables of a user whose agent has the key. Its file is removed.

        The settings of ssh of the user who runs the tests are not read.
        """
        sock, key = self._folder / "agent", self._folder / "user"
        running = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
        try:
            while not sock.exists():
                time.sleep(0.01)
            _run("ssh-add", "-q", str(key), SSH_AUTH_SOCK=str(sock))
            key.unlink()
            yield {**self.stranger(), "SSH_AUTH_SOCK": str(sock)}
        finally:
            running.terminate()
            running.wait()

    def stranger(self) -> dict[str, str]:
        """Return the variables of a user without a key who knows the server."""
        programs = self._folder / "bin"
        programs.mkdir(exist_ok=True)
        wrapper = programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {self._client} -F {self._folder}/client "$@"\n')
        wrapper.chmod(0o755)
        return {"PATH": f"{programs}:{os.environ['PATH']}", "SSH_AUTH_SOCK": ""}

    def _wait(self) -> None:
        until = time.monotonic() + _READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                log = (self._folder / "log").read_text()
                assert self._running.poll() is None, log
                assert time.monotonic() < until, log
                time.sleep(0.02)


def _run(*command: str, **variables: str) -> None:
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
